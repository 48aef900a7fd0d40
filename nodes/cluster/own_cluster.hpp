// The cluster of a user who started none.
#pragma once

#include "schema/base/fault.hpp"

#include <string>

namespace vgpu {

/// Returns the endpoint of a cluster with one node of 8 pGPUs, whose run
/// directory is the default one's name with `-own`. It starts the cluster
/// unless it is up. The cluster outlives the client that started it, so that
/// the next client finds the sessions of one that died. It ends some seconds
/// after its last program.
result<std::string> own_cluster();

} // namespace vgpu
