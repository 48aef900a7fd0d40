#include "policies/simulator/swap_candidates.hpp"

#include <algorithm>
#include <set>

namespace vgpu::simulator {

void swap_candidates::may_leave(std::uint32_t i, std::uint32_t node,
                                policy::resident x) {
  stays(i);
  auto ends = policy::turn_ends(x, options_);
  auto& known =
      residents_.emplace(i, resident{node, ends, std::move(x)}).first->second;
  nodes_[node].residents.insert(i);
  file(i, known);
}

void swap_candidates::stays(std::uint32_t i) {
  auto found = residents_.find(i);
  if (found == residents_.end())
    return;
  by_end_.erase({found->second.ends, i});
  nodes_[found->second.node].residents.erase(i);
  residents_.erase(found);
}

void swap_candidates::leaves(std::uint32_t i, std::uint32_t for_whom) {
  auto& x = residents_.at(i);
  auto node = x.node;
  leavers_.insert_or_assign(
      i, leaver{for_whom, node, std::move(x.what.where.pgpus)});
  ++awaited_[for_whom];
  nodes_[node].leavers.insert(i);
  stays(i);
  refile(node);
}

void swap_candidates::has_left(std::uint32_t i) {
  auto gone = leavers_.extract(i);
  if (!gone)
    return;
  const auto& [for_whom, node, pgpus] = gone.mapped();
  if (auto x = awaited_.find(for_whom); --x->second == 0)
    awaited_.erase(x);
  nodes_[node].leavers.erase(i);
  refile(node);
}

bool swap_candidates::is_left(const resident& x) const {
  std::set<std::uint32_t> served;
  for (auto i : nodes_.at(x.node).leavers) {
    const auto& [for_whom, node, pgpus] = leavers_.at(i);
    served.insert(for_whom);
    const auto& theirs = x.what.where.pgpus;
    if (std::ranges::find_first_of(pgpus, theirs) != pgpus.end())
      return true;
  }
  return served.size() >= options_.at_once;
}

void swap_candidates::file(std::uint32_t i, const resident& x) {
  if (is_left(x))
    by_end_.erase({x.ends, i});
  else
    by_end_.emplace(std::pair{x.ends, i}, &x);
}

/// Updates the vGPUs of a node after one began or finished leaving.
void swap_candidates::refile(std::uint32_t node) {
  for (auto i : nodes_[node].residents)
    file(i, residents_.at(i));
}

policy::room_decision
swap_candidates::make_room(const policy::placement_index& cluster,
                           const policy::demand& what, std::int32_t priority,
                           policy::time_point now) const {
  if (by_end_.empty() || cluster.has_room(what))
    return {};
  std::map<std::string, policy::node_view> copies;
  auto find = [&](const std::string& name) {
    return cluster.with_nothing_kept(name, copies);
  };
  auto at = by_end_.begin();
  auto next = [&] {
    return at == by_end_.end() ? nullptr : &(at++)->second->what;
  };
  return policy::make_room(find, what, priority, next, now, options_);
}

} // namespace vgpu::simulator
