#include "policies/placement.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

namespace vgpu::policy {

namespace {

bool holds(const place& where, const std::string& node, std::uint32_t pgpu) {
  return where.node == node && std::find(where.pgpus.begin(), where.pgpus.end(),
                                         pgpu) != where.pgpus.end();
}

bool is_among(const std::vector<place>& all, const std::string& node,
              std::uint32_t pgpu) {
  return std::any_of(all.begin(), all.end(),
                     [&](const place& x) { return holds(x, node, pgpu); });
}

/// Whether this pGPU is one of those that may be taken at all.
bool is_wished(const node_view& node, const pgpu_view& pgpu,
               const demand& what) {
  auto ordinal = pgpu.ordinal;
  return (what.node.empty() || what.node == node.name) &&
         (what.pgpu < 0 || static_cast<std::uint32_t>(what.pgpu) == ordinal) &&
         (what.backend.empty() || what.backend == pgpu.backend) &&
         (what.where != demand::locality::local_only ||
          node.host == what.host) &&
         (!what.beside_somebody || is_among(what.beside, node.name, ordinal)) &&
         !is_among(what.apart, node.name, ordinal);
}

/// The wishes, for a person.
std::string wishes(const demand& what) {
  std::string out;
  if (!what.node.empty())
    out += " of node " + what.node;
  if (what.pgpu >= 0)
    out += " of ordinal " + std::to_string(what.pgpu);
  if (!what.backend.empty())
    out += " of backend " + what.backend;
  if (what.where == demand::locality::local_only)
    out += " on the program's host";
  if (what.beside_somebody)
    out += " beside the vGPU it is to be with";
  if (!what.apart.empty())
    out += " apart from the vGPU it is not to be with";
  return out;
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
    if (!pgpu.healthy || what.memory > free || !is_wished(node, pgpu, what))
      continue;
    auto failing = is_among(what.failing, node.name, pgpu.ordinal);
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
  out.remote = what.where != demand::locality::any && node.host != what.host;
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
                  " MiB free" + wishes(what)};
}

std::optional<place> place_to_keep(const cluster_view& cluster,
                                   const demand& what) {
  std::optional<place> best;
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& node : cluster.nodes) {
    if (!node.alive)
      continue;
    auto emptied = node;
    for (auto& pgpu : emptied.pgpus)
      pgpu.reserved = 0;
    auto possible = candidates(emptied, what);
    if (what.gpus == 0 || possible.size() < what.gpus)
      continue;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> lacks;
    for (const auto& x : possible)
      for (const auto& pgpu : node.pgpus)
        if (pgpu.ordinal == x.ordinal) {
          auto free = pgpu.memory - std::min(pgpu.reserved, pgpu.memory);
          lacks.emplace_back(what.memory - std::min(what.memory, free),
                             pgpu.ordinal);
        }
    std::sort(lacks.begin(), lacks.end());
    place here{node.name, {}};
    auto sum = std::uint64_t{0};
    for (auto i = 0u; i < what.gpus; ++i) {
      sum += lacks[i].first;
      here.pgpus.push_back(lacks[i].second);
    }
    if (best && sum >= least)
      continue;
    least = sum;
    best = std::move(here);
  }
  return best;
}

void keep(cluster_view& cluster, const place& where) {
  for (auto& node : cluster.nodes)
    for (auto& pgpu : node.pgpus)
      if (holds(where, node.name, pgpu.ordinal))
        pgpu.reserved = pgpu.memory;
}

} // namespace vgpu::policy
