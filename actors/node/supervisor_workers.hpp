// What a node's supervisor does with its workers. Parts of one actor: `self` is
// the supervisor in all of this.
#pragma once

#include "actors/node/supervisor.hpp"

namespace vgpu::supervising {

using self_ptr = supervisor_actor::stateful_pointer<supervisor_state>;

/// Nothing, while there is no connection.
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
/// What the session holds changes while it runs.
void take(self_ptr self, const control::envelope&,
          const control::resize_session& to);
/// All of them, for good.
void stop_workers(self_ptr self);

// -- what becomes of them -----------------------------------------------------

/// What one of them, or who says that he is one, says.
void on_worker(self_ptr self, const std::string& peer,
               const control::envelope& in);
void on_child_started(self_ptr self, const child_started& x);
/// Whether it was one that had orders.
bool on_child_exited(self_ptr self, const child_exited& gone);
/// To be called again and again.
void check_deadlines(self_ptr self);
/// Whether the process of any has not ended.
bool has_workers(const supervisor_state& st);

} // namespace vgpu::supervising
