#include "policies/admission.hpp"

#include <algorithm>

namespace vgpu::policy {

namespace {

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

fault invalid(std::string what) {
  return {CUDA_ERROR_INVALID_VALUE, std::move(what)};
}

} // namespace

cluster_extent extent_of(const cluster_view& cluster) {
  cluster_extent out;
  for (const auto& node : cluster.nodes) {
    if (!node.alive)
      continue;
    out.most_pgpus = std::max(out.most_pgpus, node.pgpus.size());
    for (const auto& pgpu : node.pgpus)
      out.most_memory = std::max(out.most_memory, pgpu.memory);
  }
  return out;
}

status admit(const cluster_view& cluster, const demand& what) {
  return admit_within(extent_of(cluster), what);
}

status admit_within(const cluster_extent& cluster, const demand& what) {
  // Written so that NaN is refused as well.
  if (!(what.share > 0 && what.share <= 1))
    return invalid("a share of " + std::to_string(what.share) +
                   " of a GPU: give more than 0 and at most 1");
  if (!(what.limit > 0 && what.limit <= 1))
    return invalid("a limit of " + std::to_string(what.limit) +
                   " of a GPU: give more than 0 and at most 1");
  if (what.gpus == 0 || what.gpus > most_gpus)
    return invalid(std::to_string(what.gpus) + " GPUs: give 1 to " +
                   std::to_string(most_gpus));
  auto [most_memory, most_pgpus] = cluster;
  if (most_pgpus == 0)
    return fault{CUDA_ERROR_NO_DEVICE,
                 "no node with a GPU has joined the cluster: start one with "
                 "vgpu-node"};
  if (what.gpus > most_pgpus)
    return invalid(std::to_string(what.gpus) + " GPUs: no node has more than " +
                   std::to_string(most_pgpus));
  if (what.memory > most_memory)
    return fault{CUDA_ERROR_OUT_OF_MEMORY,
                 mib(what.memory) + " of GPU memory: no GPU has more than " +
                     mib(most_memory)};
  return {};
}

} // namespace vgpu::policy
