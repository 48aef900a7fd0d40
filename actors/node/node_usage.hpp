// What a node knows of its workers' use, and tells the manager.
#pragma once

#include "actors/node/supervisor.hpp"

#include <vector>

namespace vgpu {

/// Gives a worker that is about to start memory in which it writes down what it
/// uses, and where this process finds that when it is dead. Null where there is
/// none.
std::shared_ptr<usage_page> add_account(child_spec& to, session_id session);

/// What the worker told, and what it wrote down since.
control::session_load load_of(const supervisor_state::worker& x);

/// Its process is gone; what it used is still to be told.
void note_ended(supervisor_state& st, const supervisor_state::worker& x);

/// What is to be said of those in the beat `st.beats`: again and again, until
/// the manager has written it down.
std::vector<control::session_load> last_words(supervisor_state& st);

/// What was said in this beat is written down.
void heard_last_words(supervisor_state& st, std::uint64_t beat);

} // namespace vgpu
