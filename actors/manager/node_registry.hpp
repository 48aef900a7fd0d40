// The cluster's nodes: they register, report, fall silent and leave.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/peer_registry.hpp"
#include "actors/manager/cluster/term_numbers.hpp"
#include "actors/manager/sessions/idle_reclaimer.hpp"
#include "actors/manager/sessions/session_lifecycle.hpp"
#include "actors/manager/sessions/session_placement.hpp"
#include "actors/manager/sessions/vgpu_settings.hpp"

#include <map>
#include <string>
#include <utility>

namespace vgpu {

/// Keeps the nodes' records (node_record::stage draws their states), and
/// reports the fate of workers to the parts for sessions. Of sessions it
/// changes only their loads. Not thread-safe.
class node_registry {
public:
  node_registry(const manager_options& options, manager_clock& clock,
                cluster_state& state, outbox& out, capacity_index& capacity,
                accounts& books, term_numbers& numbers,
                const peer_registry& peers, session_placement& placement,
                session_lifecycle& lifecycle, vgpu_settings& settings,
                idle_reclaimer& reclaimer);
  node_registry(const node_registry&) = delete;
  node_registry& operator=(const node_registry&) = delete;

  void handle(const std::string& peer, const control::envelope& from,
              const control::register_node& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::node_beat& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::worker_started& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::worker_exited& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::inject_fault& x);

  /// Returns the name of the node that registered on this connection; empty:
  /// none did. A hello alone makes nobody a node.
  std::string registered(const std::string& peer) const;
  /// Handles a node's goodbye.
  void node_leaves(const std::string& name);
  /// Handles a closed connection, which may be a node's.
  void connection_gone(const std::string& peer);
  /// Finds nodes that may be lost by now.
  void on_tick();
  /// Returns true once where all messages that wait at the link must be read
  /// before nodes are judged. Then call looked() when they were handled.
  bool wants_look() noexcept;
  /// Marks nodes as lost that are silent though the link was read.
  void looked();
  /// Asks the clock for a tick when the next node may be lost.
  void ask_for_ticks() const;

private:
  bool is_heard(const node_record& node) const;
  void hold_claim(const node_record& node, const std::string& peer,
                  const control::envelope& from);
  time_point silent_at(const node_record& node) const;
  void take_claims();
  void take_inventory(node_record& node, const control::register_node& x);
  void leave_failed_pgpu(const std::string& node, std::uint32_t ordinal);
  void reconcile(const node_record& node, const control::register_node& x);
  void reconcile_listed(const node_record& node,
                        const control::running_session& x);
  void fence_newer(const std::string& node, session_record& session,
                   const control::running_session& x);
  void note_unclaimed(const std::string& node,
                      const control::running_session& x);
  void lose(node_record& node, node_record::stage state,
            const std::string& why);
  session_record* session_at(const std::string& node, session_id id,
                             vgpu::epoch of);
  bool is_overdue(const node_record& node, time_point attended) const;
  bool any_overdue(time_point attended) const;
  bool doubts_silence() const;

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  accounts& accounts_;
  term_numbers& numbers_;
  const peer_registry& peers_;
  session_placement& placement_;
  session_lifecycle& lifecycle_;
  vgpu_settings& settings_;
  idle_reclaimer& reclaimer_;

  /// Holds the connection and the message of registrations that wait until the
  /// node of that name is not heard any more, by name.
  std::map<std::string, std::pair<std::string, control::envelope>> claims_;
  /// Says how far the reading of the link is that precedes a judgement.
  enum class look { none, wanted, under_way };
  look looking_ = look::none;
  /// Holds the attended time at which it was wanted.
  time_point look_from_;
};

} // namespace vgpu
