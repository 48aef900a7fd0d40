#include "policies/simulator/memory_turns.hpp"

#include <algorithm>
#include <set>

namespace vgpu::simulator {

void memory_turns::may_leave(std::uint32_t i, std::uint32_t node,
                             policy::resident x) {
  stays(i);
  auto ends = policy::turn_ends(x, options_);
  ends_.emplace(i, ends);
  by_end_.emplace(std::pair{ends, i}, resident{node, std::move(x)});
}

void memory_turns::stays(std::uint32_t i) {
  auto found = ends_.find(i);
  if (found == ends_.end())
    return;
  by_end_.erase({found->second, i});
  ends_.erase(found);
}

void memory_turns::leaves(std::uint32_t i, std::uint32_t for_whom) {
  auto& x = by_end_.at({ends_.at(i), i});
  leavers_.insert_or_assign(
      i, leaver{for_whom, x.node, std::move(x.what.where.pgpus)});
  stays(i);
}

void memory_turns::has_left(std::uint32_t i) {
  leavers_.erase(i);
}

bool memory_turns::is_awaited_by(std::uint32_t i) const {
  return std::ranges::any_of(
      leavers_, [&](const auto& x) { return x.second.for_whom == i; });
}

bool memory_turns::at_limit() const {
  std::set<std::uint32_t> served;
  for (const auto& [who, x] : leavers_)
    served.insert(x.for_whom);
  return served.size() >= options_.at_once;
}

bool memory_turns::is_left(const resident& x) const {
  return std::ranges::any_of(leavers_, [&](const auto& leaving) {
    const auto& [for_whom, node, pgpus] = leaving.second;
    const auto& theirs = x.what.where.pgpus;
    return node == x.node &&
           std::ranges::find_first_of(pgpus, theirs) != pgpus.end();
  });
}

/// How many leave before any pGPU has the memory, whatever else is wished of
/// it; nothing: all that are looked at are not enough.
std::optional<std::size_t>
memory_turns::least_leaving(const policy::placement_index& cluster,
                            std::uint64_t memory, std::int32_t priority) const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> left;
  std::size_t leaving = 0;
  for (const auto& [turn, x] : by_end_) {
    if (!may_make_room(x, priority))
      continue;
    if (++leaving > policy::most_looked_at)
      return std::nullopt;
    // A simulated node's pGPUs lie in the order of their ordinals.
    for (auto ordinal : x.what.where.pgpus) {
      auto& free = left[{x.node, ordinal}];
      free += x.what.memory;
      if (free + cluster.free_with_nothing_kept(x.node, ordinal) >= memory)
        return leaving;
    }
  }
  return std::nullopt;
}

/// The policy goes through those whose turns end first until there is room, and
/// no further: few of them give the answer that all would, if they make room.
policy::room_decision
memory_turns::make_room(const policy::placement_index& cluster,
                        const policy::demand& what, std::int32_t priority,
                        policy::time_point now) const {
  if (by_end_.empty() || cluster.has_room(what))
    return {};
  auto least = least_leaving(cluster, what.memory, priority);
  if (!least)
    return {};
  std::vector<policy::resident> few;
  policy::cluster_view theirs;
  std::set<std::uint32_t> nodes;
  auto next = by_end_.begin();
  for (auto most = *least;; most = std::min(most * 4, policy::most_looked_at)) {
    for (; next != by_end_.end() && few.size() < most; ++next) {
      const auto& x = next->second;
      if (!may_make_room(x, priority))
        continue;
      few.push_back(x.what);
      if (nodes.insert(x.node).second)
        theirs.nodes.push_back(cluster.with_nothing_kept(x.node));
    }
    auto out = policy::make_room(theirs, what, priority, few, now, options_);
    if (!out.leave.empty() || out.look_again || next == by_end_.end() ||
        most >= policy::most_looked_at)
      return out;
  }
}

} // namespace vgpu::simulator
