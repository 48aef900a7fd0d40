#include "policies/placement.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace vgpu::policy {

namespace {

bool holds(const place& where, const std::string& node, std::uint32_t pgpu) {
  return where.node == node && std::find(where.pgpus.begin(), where.pgpus.end(),
                                         pgpu) != where.pgpus.end();
}

/// One pGPU as a candidate; the smaller, the better.
struct rated_pgpu {
  bool failing = false;
  bool elsewhere = true;
  double shares = 0;
  std::uint32_t sessions = 0;
  std::uint64_t not_free = 0; // grows as free memory shrinks
  std::uint32_t ordinal = 0;
  auto operator<=>(const rated_pgpu&) const = default;
};

std::vector<rated_pgpu> candidates(const node_view& node, const demand& what) {
  std::vector<rated_pgpu> out;
  for (const auto& pgpu : node.pgpus) {
    auto free = pgpu.memory - std::min(pgpu.reserved, pgpu.memory);
    if (!pgpu.healthy || what.memory > free)
      continue;
    auto failing = std::any_of(
        what.failing.begin(), what.failing.end(),
        [&](const place& x) { return holds(x, node.name, pgpu.ordinal); });
    out.push_back({failing, !holds(what.previous, node.name, pgpu.ordinal),
                   pgpu.shares, pgpu.sessions, ~free, pgpu.ordinal});
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// A node's best pGPUs, rated as a whole; the smaller, the better.
struct rated_node {
  std::size_t failing = 0;
  std::size_t elsewhere = 0;
  bool remote = true;
  double shares = 0;
  std::uint64_t sessions = 0;
  std::uint64_t not_free = 0;
  std::string name;
  std::vector<std::uint32_t> pgpus;
  auto operator<=>(const rated_node&) const = default;
};

rated_node rate(const node_view& node, const demand& what,
                const std::vector<rated_pgpu>& best) {
  rated_node out;
  out.name = node.name;
  out.remote = node.host != what.host;
  for (auto i = 0u; i < what.gpus; ++i) {
    out.failing += static_cast<std::size_t>(best[i].failing);
    out.elsewhere += static_cast<std::size_t>(best[i].elsewhere);
    out.shares += best[i].shares;
    out.sessions += best[i].sessions;
    out.not_free = std::max(out.not_free, best[i].not_free);
    out.pgpus.push_back(best[i].ordinal);
  }
  std::sort(out.pgpus.begin(), out.pgpus.end());
  return out;
}

} // namespace

std::variant<place, no_place> choose_place(const cluster_view& cluster,
                                           const demand& what) {
  auto alive = std::size_t{0};
  std::optional<rated_node> best;
  for (const auto& node : cluster.nodes) {
    if (!node.alive)
      continue;
    ++alive;
    auto fitting = candidates(node, what);
    if (fitting.size() < what.gpus || what.gpus == 0)
      continue;
    auto rated = rate(node, what, fitting);
    if (!best || rated < *best)
      best = std::move(rated);
  }
  if (best)
    return place{best->name, best->pgpus};
  if (alive == 0)
    return no_place{"no node is alive"};
  return no_place{"no node has " + std::to_string(what.gpus) +
                  " healthy GPU(s) with " + std::to_string(what.memory >> 20) +
                  " MiB free"};
}

} // namespace vgpu::policy
