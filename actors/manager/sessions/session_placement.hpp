// The queue, the places and the leases of sessions that wait for a worker.
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

/// Removes everything but `wanted` from a cluster. No pGPUs mean the whole
/// node.
policy::cluster_view only_place(policy::cluster_view cluster,
                                const policy::place& wanted);

/// Takes sessions from waiting to starting, or to running where a checkpointed
/// worker is still in its place, and gives clients their leases. It changes
/// sessions, but no nodes. Not thread-safe.
class session_placement {
public:
  /// Describes a waiting session.
  struct queued {
    session_id id;
    /// Tells whether memory was promised to it.
    bool promised = true;
  };

  session_placement(const manager_options& options, manager_clock& clock,
                    cluster_state& state, outbox& out, capacity_index& capacity,
                    accounts& books, const term_numbers& numbers);
  session_placement(const session_placement&) = delete;
  session_placement& operator=(const session_placement&) = delete;

  /// Finds a place for a waiting session, or notes why there is none.
  void place(session_record& x);
  /// Places all waiting sessions, in the order of the queue.
  void place_waiting();
  /// Returns the waiting sessions in order: first those that ran before, then
  /// by priority and age. Sessions to which no memory can be promised yet come
  /// after all others.
  std::vector<queued> queue() const;
  /// Sends the session's client its lease.
  void give_lease(session_record& x);
  /// Returns the bytes on each device that a session gets in a place.
  std::uint64_t quota_of(const control::specification& spec,
                         const policy::place& where);

  // -- checkpointed workers ---------------------------------------------------

  /// Records that the node has the checkpointed worker, with what only the node
  /// knows of it.
  void note_checkpointed(session_record& x,
                         const control::running_session& worker);
  /// Returns whether the session's worker was checkpointed and is now lost.
  /// Only the journal, if it has one, can recover the session.
  bool checkpointed_worker_lost(session_record& x, const std::string& why);

  /// Asks the clock for a tick when waiting sessions must be examined again.
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
  /// Holds places for sessions at the head of the queue while later ones are
  /// placed.
  std::vector<policy::place> kept_;
};

} // namespace vgpu
