#pragma once

#include "policies/placement/views.hpp"
#include "schema/base/fault.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::policy {

/// More devices than this are never given to one session.
inline constexpr std::uint32_t most_gpus = 64;

/// What admission goes by: made once for as long as no node comes or goes.
struct cluster_extent {
  std::uint64_t most_memory = 0; // bytes of one pGPU
  std::size_t most_pgpus = 0;    // of one node
};
cluster_extent extent_of(const cluster_view& cluster);

/// Refuses what can never be placed: a share or a limit outside (0, 1], no or
/// too many GPUs, more memory than any pGPU of the cluster has, more GPUs than
/// any node has, or a cluster without a node. What merely does not fit now is
/// admitted, and waits.
///
/// Shares that add up to more than 1 may use one pGPU: its policy scales them
/// down (share.hpp).
status admit_within(const cluster_extent& cluster, const demand& what);
status admit(const cluster_view& cluster, const demand& what);

/// Why who has been admitted waits, for a person: what each pGPU lacks that it
/// could have, those that lack least first, a few by name. `kept` is kept for
/// those before it in the queue (place_to_keep()): who may go ahead of them
/// delays nobody. Empty where its constraints leave no pGPU at all.
std::string why_waiting(const cluster_view& cluster,
                        const std::vector<place>& kept, const demand& what);

} // namespace vgpu::policy
