// Suspends idle vGPUs until their next call.
#pragma once

#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "policies/lifecycle/reclaim.hpp"

namespace vgpu {

/// Orders the suspension of idle sessions. Of the records it changes only
/// session_record::active_at. Not thread-safe.
class idle_reclaimer {
public:
  idle_reclaimer(const manager_options& options, manager_clock& clock,
                 cluster_state& state, movement& moves);
  idle_reclaimer(const idle_reclaimer&) = delete;
  idle_reclaimer& operator=(const idle_reclaimer&) = delete;

  /// Updates from its node's heartbeat when the session was last active.
  void note_activity(session_record& x);
  /// Suspends sessions that are idle now.
  void on_tick();
  /// Asks the clock for a tick when the next session may be idle.
  void ask_for_ticks() const;

private:
  policy::reclaim_decision decide() const;

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  movement& moves_;
};

} // namespace vgpu
