// A node's knowledge of its workers' use, and its reports to the manager.
#pragma once

#include "actors/node/supervisor.hpp"

#include <vector>

namespace vgpu {

/// Adds memory to a worker that is about to start, in which the worker keeps
/// its account and from which this process reads it after the worker's death.
/// Returns null where there is no memory.
std::shared_ptr<usage_page> add_account(child_spec& to, session_id session);

/// Returns the load that the worker reported, with the latest account.
control::session_load load_of(const supervisor_state::worker& x);

/// Keeps the last account of a worker whose process is gone, for the manager.
void note_ended(supervisor_state& st, const supervisor_state::worker& x);

/// Returns the last accounts for the heartbeat `st.beats`. Each is repeated
/// until the manager has acknowledged it.
std::vector<control::session_load> last_accounts(supervisor_state& st);

/// Drops the last accounts that this heartbeat reported, which the manager has
/// stored.
void drop_last_accounts(supervisor_state& st, std::uint64_t beat);

} // namespace vgpu
