#include "policies/placement/admission.hpp"

#include "policies/placement/placement.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vgpu::policy {

namespace {

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

fault invalid(std::string what) {
  return {fault_kind::usage, std::move(what)};
}

/// Says why one pGPU is not available. The smaller, the closer to being
/// available.
struct obstacle {
  bool broken = false;
  bool kept = false;
  std::uint64_t lacks = 0; // in bytes
  const std::string* node = nullptr;
  std::uint32_t ordinal = 0;
  std::uint64_t reserved = 0;
  std::uint64_t memory = 0;

  auto rank() const { return std::tie(broken, kept, lacks, *node, ordinal); }

  std::string text() const {
    auto where = *node + " pGPU " + std::to_string(ordinal);
    if (broken)
      return where + " is not healthy";
    if (kept)
      return where + " is reserved for a program ahead in the queue";
    if (lacks == 0)
      return where +
             " has room, but the program needs several GPUs of one node";
    return where + " lacks " + mib(lacks) + " (" + mib(reserved) + " of " +
           mib(memory) + " are promised)";
  }
};

std::vector<obstacle> obstacles(const cluster_view& cluster,
                                const std::vector<place>& kept,
                                const demand& what) {
  auto anything = what;
  anything.memory = 0;
  std::vector<obstacle> out;
  for (const auto& node : cluster.nodes)
    for (const auto& pgpu : node.pgpus) {
      if (!may_take_healthy(node, pgpu, anything))
        continue;
      auto free = free_of(pgpu);
      auto is_kept = std::any_of(kept.begin(), kept.end(), [&](const auto& x) {
        return x.node == node.name &&
               std::count(x.pgpus.begin(), x.pgpus.end(), pgpu.ordinal) != 0;
      });
      out.push_back({!pgpu.healthy, is_kept,
                     what.memory - std::min(what.memory, free), &node.name,
                     pgpu.ordinal, pgpu.reserved, pgpu.memory});
    }
  return out;
}

} // namespace

std::string why_waiting(const cluster_view& cluster,
                        const std::vector<place>& kept, const demand& what) {
  constexpr std::size_t named = 3;
  auto all = obstacles(cluster, kept, what);
  // A large cluster has thousands of obstacles, of which few are named.
  auto end =
      all.begin() + static_cast<std::ptrdiff_t>(std::min(named, all.size()));
  std::partial_sort(
      all.begin(), end, all.end(),
      [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  std::string out;
  for (std::size_t i = 0; i < std::min(named, all.size()); ++i)
    out += (i == 0 ? "" : ", ") + all[i].text();
  if (all.size() > named)
    out += ", and " + std::to_string(all.size() - named) + " more";
  return out;
}

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
  // The conditions are written so that NaN fails them.
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
    return fault{fault_kind::no_device,
                 "no node with a GPU has joined the cluster: start one with "
                 "vgpu-node"};
  if (what.gpus > most_pgpus)
    return invalid(std::to_string(what.gpus) + " GPUs: no node has more than " +
                   std::to_string(most_pgpus));
  if (what.memory > most_memory)
    return fault{fault_kind::exhausted,
                 mib(what.memory) + " of GPU memory: no GPU has more than " +
                     mib(most_memory)};
  return {};
}

} // namespace vgpu::policy
