// The cluster of a user who started none.
#pragma once

#include "schema/base/fault.hpp"

#include <string>

namespace vgpu {

/// The endpoint of a cluster with one node beside the default run directory
/// (its name with `-own`): the one that is up, or a new one. It ends some
/// seconds after its last program and outlives the client that started it, so
/// that the next finds the sessions of one that died. It has as many pGPUs as
/// VGPU_GPUS says.
result<std::string> own_cluster();

} // namespace vgpu
