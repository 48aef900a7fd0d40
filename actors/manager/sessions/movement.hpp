// Moves sessions on purpose: takes their state from one worker and gives it to
// another, now or at their programs' next call.
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
/// where to. It changes sessions, but no nodes. Not thread-safe.
///
///     order() ──► preparing ──► pausing ──► restoring ──► finish()
///                     │  its worker or its client fails │
///                     └────────────► finish() ◄─────────┘
class movement {
public:
  /// Limits the movements of idle and swapped-out sessions that begin in one
  /// tick, because other messages wait meanwhile.
  static constexpr std::size_t most_begun_at_once = 256;

  movement(const manager_options& options, manager_clock& clock,
           cluster_state& state, outbox& out, capacity_index& capacity,
           session_placement& placement);
  movement(const movement&) = delete;
  movement& operator=(const movement&) = delete;

  // -- orders -----------------------------------------------------------------

  /// Returns a fault unless the session runs and its client is connected.
  status may_move(const session_record& x) const;
  /// Begins a movement. Has a worker prepared at the target, if that is known,
  /// and the client pause the session.
  void order(session_record& x, session_movement what);
  /// Finds a worker for a session whose state is taken.
  void resume(session_record& x, const std::string& reason);
  /// Resumes a suspended session because its program has called, or because its
  /// new client has no state of it and would not notice a call.
  void wake(session_record& x);
  /// Orders the client of a suspended session to hold it until a command
  /// resumes it. The client reports this to the next manager.
  void tell_to_hold(const session_record& x);

  // -- messages of clients and nodes ------------------------------------------

  void handle(const std::string& peer, const control::envelope& from,
              const control::paused& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::wake_session& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::restored& x);
  /// Handles the report that a prepared worker has opened its devices, or
  /// cannot.
  void worker_prepared(const std::string& node,
                       const control::worker_prepared& x);

  // -- other events of a session that moves -----------------------------------

  /// Records that its client has its state, or its worker is checkpointed. A
  /// repeated report changes nothing.
  void state_taken(session_record& x, const control::paused& how);
  /// Continues a movement whose client was away or replaced, and is now served
  /// in epoch `served`: repeats an order or notes a restore that may be lost.
  void take_up(session_record& x, vgpu::epoch served);
  /// Records the loss of its worker, or of the one that was to restore its
  /// state.
  void note_loss(session_record& x, const std::string& reason);
  /// Ends the movement, if there is one, and answers the command that waits for
  /// it. An empty `failure` means success.
  void finish(session_record& x, const std::string& failure);

  /// Ends movements whose clients or workers do not answer in time.
  void on_tick();
  /// Asks the clock for a tick when that is due.
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
