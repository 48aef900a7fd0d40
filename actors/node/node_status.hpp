#pragma once

#include "actors/node/supervisor.hpp"

#include <string>

namespace vgpu {

/// Returns a node's knowledge of itself, in the form of `vgpu status --json`:
/// itself as the only node, and its sessions. It leaves programs, users and
/// shares empty, because only the manager knows them.
std::string node_status_json(const supervisor_state& x);

} // namespace vgpu
