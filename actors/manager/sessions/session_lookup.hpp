// Finds the session that a message names, or refuses the message.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/outbox.hpp"

#include <string>

namespace vgpu {

/// Returns the session if this client owns it. Otherwise refuses the message
/// and returns null. Sessions that the message may not reach are not known.
session_record* owned_session(cluster_state& state, outbox& out,
                              const std::string& peer,
                              const control::envelope& from, session_id id);

/// Returns the first session of a vGPU that the command may reach. If there is
/// none, refuses the command and returns null.
session_record* session_of_vgpu(cluster_state& state, outbox& out,
                                const std::string& peer,
                                const control::envelope& from, vgpu_id id);

} // namespace vgpu
