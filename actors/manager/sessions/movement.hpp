// Moves sessions on purpose: their states are taken from one worker and given
// to another, now or when their programs call again.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/sessions/session_placement.hpp"

#include <cstdint>
#include <string>

namespace vgpu {

/// Carries movements (session_record::moving) from order to outcome. The state
/// itself goes from worker to client to worker; the manager only says when and
/// where to. It changes sessions, and nothing of nodes. One thread.
///
///     order() ──► preparing ──► pausing ──► restoring ──► finish()
///                     │  its worker or its client fails │
///                     └────────────► finish() ◄─────────┘
class movement {
public:
  /// Movements that may begin in one tick, of idle sessions and of those that
  /// are swapped out, before other messages are handled.
  static constexpr std::size_t most_begun_at_once = 256;

  movement(const manager_options& options, manager_clock& clock,
           cluster_state& state, outbox& out, capacity_index& capacity,
           session_placement& placement);
  movement(const movement&) = delete;
  movement& operator=(const movement&) = delete;

  // -- orders -----------------------------------------------------------------

  /// Whether the session runs, and its client is here to pause it.
  status may_move(const session_record& x) const;
  /// Begins a movement: a worker is prepared where the session is to go, if
  /// that is known, and its client is asked to pause it.
  void order(session_record& x, session_movement what);
  /// A session whose state is taken gets a worker.
  void resume(session_record& x, const std::string& reason);
  /// Its program has called, or its client is new and has no state of it, so
  /// that it would not notice a call.
  void wake(session_record& x);
  /// Tells the client of a suspended session to hold it until it is resumed by
  /// name, for the client to tell the next manager.
  void tell_to_hold(const session_record& x);

  // -- what clients and nodes say ---------------------------------------------

  void handle(const std::string& peer, const control::envelope& from,
              const control::paused& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::wake_session& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::restored& x);
  /// A worker on that node has opened its devices, or cannot.
  void worker_prepared(const std::string& node,
                       const control::worker_prepared& x);

  // -- what else becomes of a session that moves ------------------------------

  /// Its client has its state, or its worker is checkpointed. Heard a second
  /// time, that changes nothing.
  void state_taken(session_record& x, const control::paused& how);
  /// Its client, or its next one, was away and is served in `served`: what was
  /// on its way may be lost, and is said again.
  void take_up(session_record& x, vgpu::epoch served);
  /// Its worker, or the one that was to restore its state, is lost.
  void note_loss(session_record& x, const std::string& reason);
  /// Ends the movement, if there is one, and answers the command that waits for
  /// it. An empty `failure`: it succeeded.
  void finish(session_record& x, const std::string& failure);

  /// Ends movements whose clients or workers do not answer in time.
  void on_tick();
  /// Asks the clock for when that is due.
  void ask_for_ticks(const session_record& x) const;

private:
  bool prepare(session_record& x);
  void ask_to_pause(session_record& x);
  void send_pause(const session_record& x);
  void suspended(session_record& x, const control::paused& how);
  void restored(session_record& x, std::uint64_t bytes, double milliseconds);
  void publish_outcome(const session_record& x, const session_movement& done,
                       const std::string& failure);

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  session_placement& placement_;
};

} // namespace vgpu
