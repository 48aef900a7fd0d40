// Sessions that want a worker: their queue, their places and their leases.
#pragma once

#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/term_numbers.hpp"
#include "policies/placement/constraints.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace vgpu {

/// Leaves of a cluster only `wanted`; no pGPUs named: the whole node.
policy::cluster_view only_place(policy::cluster_view cluster,
                                const policy::place& wanted);

/// Takes sessions from waiting to starting, or to running where a checkpointed
/// worker is still in its place, and gives clients their leases. It changes
/// sessions, and nothing of nodes. One thread.
class session_placement {
public:
  /// A session that waits.
  struct queued {
    session_id id;
    /// Whether memory was promised to it.
    bool promised = true;
  };

  session_placement(const manager_options& options, manager_clock& clock,
                    cluster_state& state, outbox& out, capacity_index& capacity,
                    accounts& books, const term_numbers& numbers);
  session_placement(const session_placement&) = delete;
  session_placement& operator=(const session_placement&) = delete;

  /// Finds a waiting session a place, or notes why there is none.
  void place(session_record& x);
  /// Places all that wait, in the order of their queue.
  void place_waiting();
  /// Who waits, in order: sessions that ran already first, then by priority and
  /// age. A session to which no memory can be promised yet waits behind all to
  /// which some was.
  std::vector<queued> queue() const;
  /// Tells the session's client what it has.
  void give_lease(session_record& x);
  /// Bytes a device that a session gets in a place.
  std::uint64_t quota_of(const control::specification& spec,
                         const policy::place& where);

  // -- checkpointed workers ---------------------------------------------------

  /// The node has the checkpointed worker; takes over what only the node knows
  /// of it.
  void note_checkpointed(session_record& x,
                         const control::running_session& worker);
  /// Whether the session's worker was checkpointed, and is lost now. What the
  /// session had is in its journal, if it keeps one.
  bool checkpointed_worker_lost(session_record& x, const std::string& why);

  /// Asks the clock for when waiting sessions must be looked at again.
  void ask_for_ticks(const session_record& x) const;

private:
  using choice = std::variant<policy::place, policy::no_place>;

  choice choose(session_record& x);
  choice choose_target(session_record& x, const policy::demand& demand);
  void wait_for_place(session_record& x, std::string why);
  void stop_waiting(session_record& x, const std::string& why);
  void start(session_record& x, policy::place where);
  void restore_process(session_record& x);
  policy::queue_rank rank_of(const session_record& x) const;
  double memory_left_to_promise() const;
  void keep_place_for(const session_record& x);

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  accounts& accounts_;
  const term_numbers& numbers_;
  /// Places kept for sessions at the head of the queue, while those behind them
  /// are placed.
  std::vector<policy::place> kept_;
};

} // namespace vgpu
