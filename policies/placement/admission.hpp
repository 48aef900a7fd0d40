#pragma once

#include "policies/placement/views.hpp"
#include "schema/base/fault.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Gives the largest number of pGPUs that one session can get.
inline constexpr std::uint32_t most_gpus = 64;

/// Holds the limits by which admission decides. They stay valid as long as no
/// node joins or leaves.
struct cluster_extent {
  /// Holds the memory of the largest pGPU, in bytes.
  std::uint64_t most_memory = 0;
  /// Holds the number of pGPUs of the largest node.
  std::size_t most_pgpus = 0;
};
/// Returns the limits of a cluster.
cluster_extent extent_of(const cluster_view& cluster);

/// Refuses a demand that can never be placed: a share or a limit outside (0,
/// 1], no pGPUs or too many, more memory than any pGPU of the cluster has, more
/// pGPUs than any node has, or a cluster without a node. A demand that only
/// does not fit now is admitted and waits.
///
/// Shares that add up to more than 1 may use one pGPU: its share policy scales
/// them down.
status admit_within(const cluster_extent& cluster, const demand& what);
/// Computes the limits of the cluster and calls admit_within().
status admit(const cluster_view& cluster, const demand& what);

/// Says, for people, why an admitted demand waits: what the pGPUs that it could
/// have lack. It names a few of them, and begins with the pGPU that lacks
/// least. `kept` are places that are kept for demands before it in the queue
/// (place_to_keep()). Returns an empty text where its constraints allow no pGPU
/// at all.
std::string why_waiting(const cluster_view& cluster,
                        const std::vector<place>& kept, const demand& what);

} // namespace vgpu::policy
