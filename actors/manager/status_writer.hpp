// Composes what a manager shows of its cluster, beside the manager.
#pragma once

#include "actors/link/link_actor.hpp"
#include "actors/manager/status_writer_actor.hpp"

namespace vgpu {

/// Implements the actor that composes a manager's status and metrics from
/// copies. A status of a large cluster takes long to compose, and the manager
/// would hear nobody meanwhile. `link` is the manager's.
status_writer_actor::behavior_type
status_writer(status_writer_actor::pointer self, link_actor link);

} // namespace vgpu
