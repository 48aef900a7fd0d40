#include "policies/placement/placement.hpp"

#include <algorithm>
#include <cmath>
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

/// Returns whether the constraints allow this pGPU.
bool meets_constraints(const node_view& node, const pgpu_view& pgpu,
                       const demand& what) {
  auto ordinal = pgpu.ordinal;
  return (what.node.empty() || what.node == node.name) &&
         (what.pgpu < 0 || static_cast<std::uint32_t>(what.pgpu) == ordinal) &&
         (what.backend.empty() || what.backend == pgpu.backend) &&
         what.capability <= pgpu.capability &&
         (what.where != demand::locality::local_only ||
          node.host == what.host) &&
         (!what.beside_somebody || is_among(what.beside, node.name, ordinal)) &&
         !is_among(what.apart, node.name, ordinal);
}

/// Describes the constraints for a person.
std::string constraints(const demand& what) {
  std::string out;
  if (!what.node.empty())
    out += " of node " + what.node;
  if (what.pgpu >= 0)
    out += " of ordinal " + std::to_string(what.pgpu);
  if (!what.backend.empty())
    out += " of backend " + what.backend;
  if (what.capability != 0)
    out += " of compute capability " + std::to_string(what.capability / 10) +
           "." + std::to_string(what.capability % 10);
  if (what.where == demand::locality::local_only)
    out += " on the program's host";
  if (what.beside_somebody)
    out += " on the GPUs of its --beside vGPU";
  if (!what.apart.empty())
    out += " off the GPUs of its --apart vGPU";
  return out;
}

/// Describes one pGPU as a candidate; the smaller, the better.
struct rated_pgpu {
  bool failing = false;
  bool elsewhere = true;
  bool off_affinity = false; // others of its group are on other pGPUs
  bool over = false;
  placement_key key;
  std::uint32_t ordinal = 0;
  auto operator<=>(const rated_pgpu&) const = default;
};

std::vector<rated_pgpu> candidates(const node_view& node, const demand& what,
                                   placement_strategy how) {
  std::uint64_t sessions = 0;
  for (const auto& pgpu : node.pgpus)
    sessions += pgpu.sessions;
  std::vector<rated_pgpu> out;
  for (const auto& pgpu : node.pgpus) {
    if (!may_take(node, pgpu, what))
      continue;
    auto over = is_over(how, pgpu, what);
    out.push_back(
        {is_among(what.failing, node.name, pgpu.ordinal),
         !holds(what.previous, node.name, pgpu.ordinal),
         !what.affinity.empty() &&
             !is_among(what.affinity, node.name, pgpu.ordinal),
         over,
         key_of(over ? placement_strategy::least_loaded : how, sessions, pgpu),
         pgpu.ordinal});
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Describes a node's best pGPUs, rated as a whole; the smaller, the better.
struct rated_node {
  std::size_t failing = 0;
  std::size_t elsewhere = 0;
  std::size_t off_affinity = 0;
  bool remote = true;
  std::size_t over = 0;
  placement_key key; // sums, and the smallest free memory
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
    out.off_affinity += static_cast<std::size_t>(best[i].off_affinity);
    out.over += static_cast<std::size_t>(best[i].over);
    out.key.rank += best[i].key.rank;
    out.key.shares += best[i].key.shares;
    out.key.sessions += best[i].key.sessions;
    out.key.not_free = std::max(out.key.not_free, best[i].key.not_free);
    out.pgpus.push_back(best[i].ordinal);
  }
  std::sort(out.pgpus.begin(), out.pgpus.end());
  return out;
}

} // namespace

double counted_share(double share) {
  constexpr double unit = 1LL << 40;
  return std::nearbyint(share * unit) / unit;
}

std::uint64_t free_of(const pgpu_view& x) {
  return x.memory - std::min(x.reserved, x.memory);
}

placement_key key_of(placement_strategy how, std::uint64_t sessions_of_node,
                     const pgpu_view& pgpu) {
  placement_key out{0, pgpu.shares, pgpu.sessions, ~free_of(pgpu)};
  if (how == placement_strategy::bin_pack)
    out.rank = -pgpu.shares;
  if (how == placement_strategy::spread)
    out.rank = static_cast<double>(sessions_of_node);
  return out;
}

bool is_over(placement_strategy how, const pgpu_view& pgpu,
             const demand& what) {
  constexpr double rounding = 1e-9;
  return how == placement_strategy::bin_pack &&
         pgpu.shares + what.share > 1 + rounding;
}

bool may_take(const node_view& node, const pgpu_view& pgpu,
              const demand& what) {
  return pgpu.healthy && may_take_healthy(node, pgpu, what);
}

bool may_take_healthy(const node_view& node, const pgpu_view& pgpu,
                      const demand& what) {
  return node.alive && what.memory <= free_of(pgpu) &&
         meets_constraints(node, pgpu, what);
}

std::optional<place> best_place(std::span<const node_view* const> among,
                                const demand& what, placement_strategy how) {
  std::optional<rated_node> best;
  for (const auto* node : among) {
    if (!node->alive)
      continue;
    auto fitting = candidates(*node, what, how);
    if (fitting.size() < what.gpus || what.gpus == 0)
      continue;
    auto rated = rate(*node, what, fitting);
    if (!best || rated < *best)
      best = std::move(rated);
  }
  return best ? std::optional{place{best->name, best->pgpus}} : std::nullopt;
}

std::variant<place, no_place> choose_place(const cluster_view& cluster,
                                           const demand& what,
                                           placement_strategy how) {
  std::vector<const node_view*> all;
  std::size_t alive = 0;
  for (const auto& node : cluster.nodes) {
    all.push_back(&node);
    alive += node.alive ? 1 : 0;
  }
  if (auto best = best_place(all, what, how))
    return std::move(*best);
  return why_none(what, alive);
}

no_place why_none(const demand& what, std::size_t alive) {
  if (alive == 0)
    return {"no node is alive"};
  return {"no node has " + std::to_string(what.gpus) + " healthy GPU(s) with " +
          std::to_string(what.memory >> 20) + " MiB free" + constraints(what)};
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
    auto possible = candidates(emptied, what, placement_strategy::least_loaded);
    if (what.gpus == 0 || possible.size() < what.gpus)
      continue;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> lacks;
    for (const auto& x : possible)
      for (const auto& pgpu : node.pgpus)
        if (pgpu.ordinal == x.ordinal) {
          auto free = free_of(pgpu);
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
