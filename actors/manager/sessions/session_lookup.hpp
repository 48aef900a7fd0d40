// Finds the session that a peer speaks of, or refuses what the peer says.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/outbox.hpp"

#include <string>

namespace vgpu {

/// The session, if this client may speak for it; otherwise null, and the client
/// is refused.
session_record* owned_session(cluster_state& state, outbox& out,
                              const std::string& peer,
                              const control::envelope& from, session_id id);

/// The first session of a vGPU; otherwise null, and the command is refused.
session_record* session_of_vgpu(cluster_state& state, outbox& out,
                                const std::string& peer,
                                const control::envelope& from, vgpu_id id);

} // namespace vgpu
