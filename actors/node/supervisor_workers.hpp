// How a node's supervisor handles its workers. These are parts of one actor;
// `self` is the supervisor.
#pragma once

#include "actors/node/supervisor.hpp"

namespace vgpu::supervising {

using self_ptr = supervisor_actor::stateful_pointer<supervisor_state>;

/// Does nothing while the manager is not connected.
void tell_manager(self_ptr self, control::body what, std::uint64_t request = 0);
void tell_worker(self_ptr self, const std::string& peer, control::body what,
                 std::uint64_t request = 0);

// -- orders of the manager ----------------------------------------------------

void take(self_ptr self, const control::envelope&,
          const control::start_worker& order);
void take(self_ptr self, const control::envelope&,
          const control::prepare_worker& order);
void take(self_ptr self, const control::envelope&,
          const control::stop_worker& x);
/// Changes what the session holds while it runs.
void take(self_ptr self, const control::envelope&,
          const control::resize_session& to);
/// Starts the process of a prepared worker, which must report that it is ready
/// within the time of a hello. Precondition: the session has none.
void prepare(self_ptr self, prepared_worker x);
/// Stops all workers, for good.
void stop_workers(self_ptr self);

// -- events of workers --------------------------------------------------------

/// Handles a message of a worker, or of a process that claims to be one.
void on_worker(self_ptr self, const std::string& peer,
               const control::envelope& in);
void on_child_started(self_ptr self, const child_started& x);
/// Returns whether a worker with orders ended.
bool on_child_exited(self_ptr self, const child_exited& gone);
/// Call it regularly.
void check_deadlines(self_ptr self);
/// Returns whether any worker's process has not ended.
bool has_workers(const supervisor_state& st);

} // namespace vgpu::supervising
