// The manager's state machine: messages and time in, messages out. It knows no
// actor, no socket and no clock.
#pragma once

#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/peer_registry.hpp"
#include "actors/manager/cluster/store.hpp"
#include "actors/manager/cluster/tenant_registry.hpp"
#include "actors/manager/cluster/term_numbers.hpp"
#include "actors/manager/node_registry.hpp"
#include "actors/manager/sessions/balancer.hpp"
#include "actors/manager/sessions/idle_reclaimer.hpp"
#include "actors/manager/sessions/memory_swapper.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "actors/manager/sessions/movement_commands.hpp"
#include "actors/manager/sessions/session_adoption.hpp"
#include "actors/manager/sessions/session_lifecycle.hpp"
#include "actors/manager/sessions/session_placement.hpp"
#include "actors/manager/sessions/vgpu_settings.hpp"
#include "actors/manager/status_report.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Composes the manager's parts: it owns them and the records that they share,
/// hands each message to the part that takes it, and calls the parts when time
/// passes. A part calls only parts that are declared above it. One thread;
/// every call gives the time, which never goes back.
class manager_core {
public:
  using sender = outbox::sender;
  /// Takes a peer's request for the status, and the copy to make it from.
  using status_teller = std::function<void(
      const std::string& peer, std::uint64_t request, status_view_ptr view)>;

  /// Keeps nothing beyond its life where `kept` is null.
  manager_core(manager_options options, std::shared_ptr<store> kept,
               sender send, status_teller tell_status, time_point now);
  manager_core(const manager_core&) = delete;
  manager_core& operator=(const manager_core&) = delete;

  void on_message(const std::string& peer, const control::envelope& what,
                  time_point now);
  /// Handles the loss of the connection to `peer`.
  void on_gone(const std::string& peer, time_point now);
  /// Call it at next_deadline(), or at any time.
  void on_tick(time_point now);
  /// Returns true once where the caller must have the link pass on all that has
  /// arrived, and call on_looked() after it.
  bool wants_look() noexcept { return nodes_.wants_look(); }
  /// Ends the sessions of clients whose keys are not permitted any more.
  void on_revoked(time_point now);
  /// Gives the sessions of a client's key to the one that replaces it.
  void on_renewed(const std::string& former, const std::string& next,
                  time_point now);
  /// Judges those whose messages would have been passed on by now.
  void on_looked(time_point now);
  /// Returns when the next tick is due at the latest; unset: none is due.
  std::optional<time_point> next_deadline() const noexcept {
    return clock_.next_due();
  }

  /// Returns what an elected leader wants etcd to keep for its successors;
  /// unset: etcd keeps it already.
  std::optional<etcd::record> to_keep() const { return numbers_.to_keep(); }
  /// Records that etcd keeps `x`.
  void kept(const etcd::record& x) { numbers_.kept(x); }

  /// Returns whether the manager must end: a command asked for it, or it was
  /// idle for too long.
  bool stopping() const noexcept { return stopping_; }
  std::uint64_t incarnation() const noexcept { return peers_.incarnation(); }
  status_view_ptr status() const { return report_.view(); }
  /// Returns usage_book::summary() by user, as a text.
  std::string usage_json() const { return accounts_.usage_json(); }
  /// Returns the counts of events since this manager began.
  const event_tally& tallies() const noexcept { return out_.tallies(); }
  /// Returns where the placement index differs from the records, for a test;
  /// empty: nowhere.
  std::string index_difference() const { return capacity_.difference(); }

private:
  void restore();
  void note_told(const std::string& peer, const control::event& x);
  template <class T>
  void dispatch(const std::string& peer, const control::envelope& from,
                const T& x);
  void tell_audit(const std::string& peer, const control::envelope& from,
                  const control::audit_request& x);
  void shut_down(const std::string& peer, const control::envelope& from);
  void note_idleness();
  void ask_for_ticks();

  // In construction order. A part calls only parts above it.
  manager_options options_;
  std::shared_ptr<store> store_;
  manager_clock clock_;
  cluster_state state_;
  outbox out_;
  capacity_index capacity_;
  accounts accounts_;
  term_numbers numbers_;
  peer_registry peers_;
  tenant_registry tenants_;
  session_placement placement_;
  movement moves_;
  movement_commands commands_;
  session_lifecycle lifecycle_;
  session_adoption adoption_;
  vgpu_settings settings_;
  idle_reclaimer reclaimer_;
  memory_swapper swapper_;
  balancer balancer_;
  node_registry nodes_;
  status_report report_;
  status_teller tell_status_;

  bool stopping_ = false;
  /// Says since when there is neither a client nor a session.
  std::optional<time_point> idle_since_;
};

} // namespace vgpu
