#include "policies/simulator/memory_turns.hpp"

#include <algorithm>

namespace vgpu::simulator {

void memory_turns::may_leave(std::uint32_t i, std::uint32_t node,
                             policy::resident x) {
  auto ends = policy::turn_ends(x, options_);
  residents_.insert_or_assign(i, resident{node, ends, std::move(x)});
  by_end_.emplace(ends, i);
}

void memory_turns::stays(std::uint32_t i) {
  auto found = residents_.find(i);
  if (found == residents_.end())
    return;
  by_end_.erase({found->second.ends, i});
  residents_.erase(found);
}

void memory_turns::leaves(std::uint32_t i, std::uint32_t for_whom,
                          policy::place from) {
  stays(i);
  leavers_.insert_or_assign(i, leaver{for_whom, std::move(from)});
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

bool memory_turns::is_left(const policy::place& x) const {
  return std::ranges::any_of(leavers_, [&](const auto& leaving) {
    const auto& from = leaving.second.from;
    return from.node == x.node &&
           std::ranges::find_first_of(from.pgpus, x.pgpus) != from.pgpus.end();
  });
}

/// The policy goes through those whose turns end first until there is room, and
/// no further: few of them give the answer that all would, if they make room.
policy::room_decision
memory_turns::make_room(const policy::placement_index& cluster,
                        const policy::demand& what, std::int32_t priority,
                        policy::time_point now) const {
  if (by_end_.empty() || cluster.has_room(what))
    return {};
  std::vector<policy::resident> few;
  policy::cluster_view theirs;
  std::set<std::uint32_t> nodes;
  auto next = by_end_.begin();
  for (std::size_t most = 8;; most *= 4) {
    for (; next != by_end_.end() && few.size() < most; ++next) {
      const auto& x = residents_.at(next->second);
      if (x.what.priority > priority || is_left(x.what.where))
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
