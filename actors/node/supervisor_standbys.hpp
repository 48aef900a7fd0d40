// How a node's supervisor keeps standbys: prepared workers that serve a session
// as soon as its worker here has died. These are parts of one actor; `self` is
// the supervisor.
#pragma once

#include "actors/node/supervisor_workers.hpp"

namespace vgpu::supervising {

/// Handles what the worker that is connected as `peer` says of its standby.
void on_standby(self_ptr self, const std::string& peer,
                const control::standby& x, std::uint64_t request);
/// Passes on to a worker what holds of its standby.
void tell_of_standby(self_ptr self, control::worker_prepared x);
/// Drops the standbys on devices where programs need the memory.
void free_standbys_memory(self_ptr self);
/// Answers those who wait for the end of standbys, if all have ended.
void tell_standbys_ended(self_ptr self);
/// Handles the end of a session's worker. `leaves`: the session does not need
/// another one here.
void worker_ended(self_ptr self, session_id session, bool leaves);

} // namespace vgpu::supervising
