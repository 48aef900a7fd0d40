#include "policies/rotation.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

namespace vgpu::policy {

namespace {

/// Bytes a second, both ways, as long as nothing was measured.
constexpr double guessed_speed = 1e9;

duration swap_of(const resident& x) {
  if (x.swap > duration{0})
    return x.swap;
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>(
      2 * static_cast<double>(x.state) / guessed_speed));
}

/// Nodes as they are without what some of their sessions reserve.
class emptied {
public:
  explicit emptied(const cluster_view& from) : from_(from) {}

  void without(const resident& x) { add(x, -1); }
  void with(const resident& x) { add(x, 1); }
  /// On that node; nowhere else has anything become free.
  std::optional<place> place_on(const std::string& name, const demand& what) {
    const node_view* one = find(name);
    return one == nullptr
               ? std::nullopt
               : best_place({&one, 1}, what, placement_strategy::least_loaded);
  }

private:
  node_view* find(const std::string& name) {
    auto found = nodes_.find(name);
    if (found != nodes_.end())
      return &found->second;
    auto there = std::ranges::find(from_.nodes, name, &node_view::name);
    return there == from_.nodes.end()
               ? nullptr
               : &nodes_.emplace(name, *there).first->second;
  }

  void add(const resident& x, int sign) {
    auto* node = find(x.where.node);
    if (node == nullptr)
      return;
    for (auto& pgpu : node->pgpus)
      if (std::ranges::count(x.where.pgpus, pgpu.ordinal) != 0)
        pgpu.reserved = sign > 0
                            ? pgpu.reserved + x.memory
                            : pgpu.reserved - std::min(pgpu.reserved, x.memory);
  }

  const cluster_view& from_;
  std::map<std::string, node_view> nodes_; // that were asked for
};

bool share_pgpu(const resident& x, const place& there) {
  return x.where.node == there.node &&
         std::ranges::any_of(x.where.pgpus, [&](auto ordinal) {
           return std::ranges::count(there.pgpus, ordinal) != 0;
         });
}

} // namespace

time_point turn_ends(const resident& x, const rotation_options& options) {
  auto least = std::chrono::duration_cast<duration>(
      swap_of(x) * (1 / options.swapped_part - 1));
  return std::max(x.since + std::max(least, options.shortest), x.rests_until);
}

room_decision make_room(const cluster_view& cluster, const demand& what,
                        std::int32_t priority, std::span<const resident> all,
                        time_point now, const rotation_options& options) {
  std::vector<std::pair<time_point, const resident*>> leaving;
  for (const auto& x : all)
    if (x.priority <= priority)
      leaving.emplace_back(turn_ends(x, options), &x);
  std::ranges::sort(leaving, {}, [](const auto& x) {
    return std::tuple{x.first, x.second->id.value};
  });
  leaving.resize(std::min(leaving.size(), most_looked_at));
  // Until somebody has left, there is no place; then only where he was.
  if (std::holds_alternative<place>(choose_place(cluster, what)))
    return {};
  emptied left{cluster};
  std::optional<place> there;
  auto end = leaving.begin();
  while (end != leaving.end() && !there) {
    left.without(*end->second);
    there = left.place_on(end->second->where.node, what);
    ++end;
  }
  if (!there)
    return {};
  leaving.erase(end, leaving.end());
  // The last one is needed; of those before, who is elsewhere is not, and who
  // was not enough by itself may not be.
  room_decision out;
  for (auto i = leaving.size(); i-- > 0;) {
    const auto& x = *leaving[i].second;
    left.with(x);
    if (!share_pgpu(x, *there) || left.place_on(there->node, what))
      continue;
    left.without(x);
    out.leave.push_back(x.id);
    out.look_again = std::max(out.look_again.value_or(now), leaving[i].first);
  }
  if (out.look_again > now)
    out.leave.clear();
  else
    out.look_again.reset();
  return out;
}

} // namespace vgpu::policy
