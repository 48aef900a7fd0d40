#include "policies/lifecycle/balance.hpp"

#include "policies/placement/placement.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

namespace vgpu::policy {

namespace {

/// On a pGPU that was busier than this, some session may have waited.
constexpr double busy_from = 0.7;
constexpr double rounding = 1e-9;

/// Describes a pGPU with the sums over its vGPUs.
struct balanced_pgpu {
  const node_view* node = nullptr;
  const pgpu_view* at = nullptr;
  double load = 0;
  double promised = 0; // the sum of the shares that are promises
  double mean = 0;     // of its model
  std::vector<const balanced_vgpu*> vgpus{};

  bool takes() const { return node->alive && at->healthy; }
  place where() const { return {node->name, {at->ordinal}}; }
};

/// Returns the promised compute. A share of 1 promises nothing.
double promise_of(const balanced_vgpu& x) {
  return x.constraints.share < 1 ? x.constraints.share : 0;
}

std::vector<balanced_pgpu> weigh(const balance_view& view) {
  std::vector<balanced_pgpu> out;
  std::map<std::pair<std::string, std::uint32_t>, std::size_t> index;
  for (const auto& node : view.cluster.nodes)
    for (const auto& pgpu : node.pgpus) {
      index[{node.name, pgpu.ordinal}] = out.size();
      out.push_back({.node = &node, .at = &pgpu});
    }
  for (const auto& x : view.vgpus)
    for (auto ordinal : x.where.pgpus)
      if (auto i = index.find({x.where.node, ordinal}); i != index.end()) {
        auto& to = out[i->second];
        to.load += x.load;
        to.promised += promise_of(x);
        to.vgpus.push_back(&x);
      }
  using kind = std::pair<std::string, std::string>;
  std::map<kind, std::pair<double, std::size_t>> sums;
  for (const auto& x : out)
    if (x.takes()) {
      auto& [sum, count] = sums[{x.at->backend, x.at->model}];
      sum += x.load;
      ++count;
    }
  for (auto& x : out)
    if (auto& [sum, count] = sums[{x.at->backend, x.at->model}]; count != 0)
      x.mean = sum / static_cast<double>(count);
  return out;
}

/// Returns whether the vGPU is left alone: a migration failed, or it was
/// migrated recently and its node is not drained.
bool rests(const balanced_vgpu& x, const balanced_pgpu& on, time_point now,
           const balance_options& options) {
  return now < x.rests_until ||
         (!on.node->draining && x.moved && now < *x.moved + options.stays_for);
}

bool may_leave(const balanced_vgpu& x) {
  return x.movable && x.constraints.gpus == 1 && x.where.pgpus.size() == 1;
}

/// Returns whether this pGPU is as good a place as the present one.
bool suits(const balanced_pgpu& to, const balanced_pgpu& from,
           const balanced_vgpu& x) {
  if (&to == &from || !to.takes() || to.at->backend != from.at->backend ||
      to.at->model != from.at->model || to.at->memory < from.at->memory ||
      !may_take(*to.node, *to.at, x.constraints))
    return false;
  auto free = to.at->memory - std::min(to.at->held, to.at->memory);
  auto promise = promise_of(x);
  return std::max(x.bytes, x.constraints.memory) <= free &&
         (promise == 0 || to.promised + promise <= 1 + rounding);
}

bool leaves_its_host(const balanced_pgpu& to, const balanced_pgpu& from,
                     const balanced_vgpu& x) {
  return x.constraints.where == demand::locality::local_first &&
         from.node->host == x.constraints.host &&
         to.node->host != x.constraints.host;
}

/// Returns the pGPU with the least load that the vGPU may have.
const balanced_pgpu* coolest(const std::vector<balanced_pgpu>& all,
                             const balanced_pgpu& from, const balanced_vgpu& x,
                             bool may_leave_host) {
  const balanced_pgpu* best = nullptr;
  for (const auto& to : all)
    if ((best == nullptr || to.load < best->load) && suits(to, from, x) &&
        (may_leave_host || !leaves_its_host(to, from, x)))
      best = &to;
  return best;
}

/// Returns the vGPUs of a pGPU that may leave, the cheapest first.
std::vector<const balanced_vgpu*> leaving(const balanced_pgpu& from,
                                          time_point now,
                                          const balance_options& options) {
  auto out = from.vgpus;
  std::erase_if(out, [&](const auto* x) {
    return !may_leave(*x) || rests(*x, from, now, options);
  });
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    return std::tuple{a->bytes, -a->load, a->id} <
           std::tuple{b->bytes, -b->load, b->id};
  });
  return out;
}

std::string one_digit(double x) {
  char out[32];
  std::snprintf(out, sizeof(out), "%.1f", x);
  return out;
}

std::optional<balance_move> empty_drained(const std::vector<balanced_pgpu>& all,
                                          time_point now,
                                          const balance_options& options) {
  for (const auto& from : all) {
    if (!from.node->draining)
      continue;
    for (const auto* x : leaving(from, now, options))
      if (const auto* to = coolest(all, from, *x, true))
        return balance_move{x->id, from.where(), to->where(),
                            "node " + from.node->name + " is drained"};
  }
  return std::nullopt;
}

bool is_hot(const balanced_pgpu& x, const balance_options& options) {
  return x.takes() && x.load > 1 + rounding &&
         x.load > x.mean + options.threshold;
}

/// Returns whether the migration is worth its cost.
bool gains(const balanced_pgpu& from, const balanced_pgpu& to,
           const balanced_vgpu& x, const balance_options& options) {
  return x.load >= options.margin &&
         to.load + x.load <= from.load - options.margin &&
         to.load + x.load <= from.mean + options.threshold;
}

} // namespace

double load_of(double used, double used_by_all, std::size_t users,
               double limit) {
  used = std::clamp(used, 0.0, 1.0);
  if (used_by_all <= busy_from || users < 2)
    return used;
  auto crowded = std::min(1.0, (used_by_all - busy_from) / (1 - busy_from));
  auto more = std::max(0.0, static_cast<double>(users) / used_by_all - 1);
  return std::min({used + used * more * crowded, std::max(limit, used), 1.0});
}

double imbalance_of(const balance_view& view) {
  auto out = 0.0;
  for (const auto& x : weigh(view))
    if (x.takes())
      out += (x.load - x.mean) * (x.load - x.mean);
  return out;
}

std::optional<balance_move> choose_move(const balance_view& view,
                                        time_point now,
                                        const balance_options& options) {
  auto all = weigh(view);
  if (auto move = empty_drained(all, now, options))
    return move;
  std::vector<const balanced_pgpu*> hot;
  for (const auto& x : all)
    if (is_hot(x, options))
      hot.push_back(&x);
  std::stable_sort(hot.begin(), hot.end(), [](const auto* a, const auto* b) {
    return a->load - a->mean > b->load - b->mean;
  });
  for (const auto* from : hot)
    for (const auto* x : leaving(*from, now, options)) {
      const auto* to = coolest(all, *from, *x, false);
      if (to != nullptr && gains(*from, *to, *x, options))
        return balance_move{x->id, from->where(), to->where(),
                            "its GPU had work for " + one_digit(from->load) +
                                " GPUs, the average is " +
                                one_digit(from->mean)};
    }
  return std::nullopt;
}

bool hot_spot::stays(const std::optional<balance_move>& proposed,
                     unsigned looks) {
  if (!proposed || proposed->from != where_) {
    where_ = proposed ? proposed->from : place{};
    looks_ = 0;
  }
  return proposed && ++looks_ >= looks;
}

} // namespace vgpu::policy
