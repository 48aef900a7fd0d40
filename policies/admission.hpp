#pragma once

#include "policies/views.hpp"
#include "schema/fault.hpp"

namespace vgpu::policy {

/// More devices than this are never given to one session.
inline constexpr std::uint32_t most_gpus = 64;

/// Refuses what can never be placed: a share or a limit outside (0, 1], no or
/// too many GPUs, more memory than any pGPU of the cluster has, more GPUs than
/// any node has, or a cluster without a node. What merely does not fit now is
/// admitted, and waits.
///
/// Shares that add up to more than 1 may use one pGPU: its policy scales them
/// down (share.hpp).
status admit(const cluster_view& cluster, const demand& what);

} // namespace vgpu::policy
