#pragma once

#include "actors/node/supervisor.hpp"

#include <string>

namespace vgpu {

/// What a node knows of itself, in the form of `vgpu status --json`: itself as
/// the only node, and its sessions. Programs, users and shares are the
/// manager's knowledge and left empty.
std::string node_status_json(const supervisor_state& x);

} // namespace vgpu
