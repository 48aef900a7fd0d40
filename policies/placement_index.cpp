#include "policies/placement_index.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace vgpu::policy {

placement_index::placement_index(cluster_view cluster, placement_strategy how)
    : cluster_(std::move(cluster)), sessions_(cluster_.nodes.size(), 0) {
  shelves_.push_back({how, {}});
  if (how == placement_strategy::bin_pack)
    shelves_.push_back({placement_strategy::least_loaded, {}});
  for (std::size_t n = 0; n < cluster_.nodes.size(); ++n) {
    const auto& x = cluster_.nodes[n];
    by_name_[x.name] = n;
    by_host_[x.host].push_back(n);
    for (const auto& each : x.pgpus)
      sessions_[n] += each.sessions;
    for_each(n, nullptr, [](auto& to, const key& at) { to.insert(at); });
  }
}

std::size_t placement_index::class_of(std::uint64_t free) {
  if (free < 4)
    return static_cast<std::size_t>(free);
  auto power = static_cast<std::size_t>(std::bit_width(free)) - 1;
  return power * 4 + static_cast<std::size_t>((free >> (power - 2)) & 3);
}

placement_index::key placement_index::key_at(const shelf& in,
                                             const spot& x) const {
  return {key_of(in.how, sessions_[x.first], pgpu(x)), node(x).name,
          pgpu(x).ordinal, x};
}

template <class F>
void placement_index::for_each(std::size_t n,
                               const std::vector<std::uint32_t>* only, F f) {
  const auto& of = cluster_.nodes[n];
  // By `spread`, what comes to one of them changes the order of all.
  if (shelves_.front().how == placement_strategy::spread)
    only = nullptr;
  for (std::size_t p = 0; p < of.pgpus.size(); ++p) {
    const auto& each = of.pgpus[p];
    auto meant = only == nullptr || std::find(only->begin(), only->end(),
                                              each.ordinal) != only->end();
    if (meant && of.alive && each.healthy)
      for (auto& in : shelves_)
        f(in.by_free[class_of(free_of(each))], key_at(in, {n, p}));
  }
}

template <class F>
void placement_index::change(const place& where, F f) {
  auto i = by_name_.find(where.node);
  if (i == by_name_.end())
    return;
  for_each(i->second, &where.pgpus,
           [](auto& from, const key& x) { from.erase(x); });
  for (auto& each : cluster_.nodes[i->second].pgpus)
    if (std::find(where.pgpus.begin(), where.pgpus.end(), each.ordinal) !=
        where.pgpus.end())
      f(each, sessions_[i->second]);
  for_each(i->second, &where.pgpus,
           [](auto& to, const key& x) { to.insert(x); });
}

void placement_index::take(const place& where, const demand& what) {
  change(where, [&](pgpu_view& x, std::uint64_t& sessions) {
    x.reserved += what.memory;
    x.shares += what.share;
    ++x.sessions;
    ++sessions;
  });
}

void placement_index::give(const place& where, const demand& what) {
  change(where, [&](pgpu_view& x, std::uint64_t& sessions) {
    x.reserved -= what.memory;
    x.shares -= what.share;
    --x.sessions;
    --sessions;
  });
}

bool placement_index::is_simple(const demand& what) {
  return what.gpus == 1 && what.previous.node.empty() && what.failing.empty() &&
         what.node.empty() && what.pgpu < 0 && what.backend.empty() &&
         !what.beside_somebody && what.apart.empty() && what.affinity.empty() &&
         what.where != demand::locality::local_only;
}

placement_index::found placement_index::best_on_host(const demand& what) const {
  auto here = by_host_.find(what.host);
  if (what.where == demand::locality::any || here == by_host_.end())
    return std::nullopt;
  for (const auto& in : shelves_) {
    found best;
    for (auto n : here->second)
      for (std::size_t p = 0; p < cluster_.nodes[n].pgpus.size(); ++p) {
        const auto& each = cluster_.nodes[n].pgpus[p];
        if (!may_take(cluster_.nodes[n], each, what) ||
            is_over(in.how, each, what))
          continue;
        if (auto rated = key_at(in, {n, p}); !best || rated < *best)
          best = rated;
      }
    if (best)
      return best;
  }
  return std::nullopt;
}

/// The first that has room, of a class of free memory.
placement_index::found placement_index::first_fit(const std::set<key>& among,
                                                  const shelf& in,
                                                  const demand& what) const {
  auto i = among.begin();
  if (in.how == placement_strategy::bin_pack) {
    // All before have too much to do for this.
    constexpr double rounding = 1e-8;
    key from{};
    std::get<0>(from).rank = what.share - 1 - rounding;
    std::get<0>(from).shares = -std::numeric_limits<double>::infinity();
    i = among.lower_bound(from);
  }
  for (; i != among.end(); ++i) {
    const auto& each = pgpu(std::get<spot>(*i));
    if (what.memory <= free_of(each) && !is_over(in.how, each, what))
      return *i;
  }
  return std::nullopt;
}

placement_index::found placement_index::best_in(const shelf& in,
                                                const demand& what) const {
  found best;
  // From above: those have the memory for sure, and the last class, where not
  // all do, is looked through only as far as it is better.
  auto least = class_of(what.memory);
  for (auto c = classes; c-- > least;)
    if (auto got = first_fit(in.by_free[c], in, what);
        got && (!best || *got < *best))
      best = got;
  return best;
}

std::variant<place, no_place>
placement_index::choose(const demand& what) const {
  if (!is_simple(what))
    return choose_place(cluster_, what, shelves_.front().how);
  auto best = best_on_host(what);
  for (auto in = shelves_.begin(); !best && in != shelves_.end(); ++in)
    best = best_in(*in, what);
  // It says why there is none.
  if (!best)
    return choose_place(cluster_, what, shelves_.front().how);
  auto where = std::get<spot>(*best);
  return place{node(where).name, {pgpu(where).ordinal}};
}

} // namespace vgpu::policy
