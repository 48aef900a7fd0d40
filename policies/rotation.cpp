#include "policies/rotation.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vgpu::policy {

namespace {

/// Of those whose turns end first no more are looked at.
constexpr std::size_t most_looked_at = 256;
/// Bytes a second, both ways, as long as nothing was measured.
constexpr double guessed_speed = 1e9;

duration swap_of(const resident& x) {
  if (x.swap > duration{0})
    return x.swap;
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>(
      2 * static_cast<double>(x.state) / guessed_speed));
}

/// The cluster as it is without what they reserve.
class emptied {
public:
  explicit emptied(const cluster_view& from) : view_(from) {}

  void without(const resident& x) { add(x, -1); }
  void with(const resident& x) { add(x, 1); }
  std::optional<place> place_for(const demand& what) const {
    auto found = choose_place(view_, what);
    auto* there = std::get_if<place>(&found);
    return there == nullptr ? std::nullopt : std::optional{*there};
  }

private:
  void add(const resident& x, int sign) {
    for (auto& node : view_.nodes)
      for (auto& pgpu : node.pgpus)
        if (node.name == x.where.node &&
            std::ranges::count(x.where.pgpus, pgpu.ordinal) != 0)
          pgpu.reserved =
              sign > 0 ? pgpu.reserved + x.memory
                       : pgpu.reserved - std::min(pgpu.reserved, x.memory);
  }

  cluster_view view_;
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
  emptied left{cluster};
  std::optional<place> there;
  auto end = leaving.begin();
  while (end != leaving.end() && !there) {
    left.without(*end->second);
    ++end;
    there = left.place_for(what);
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
    if (!share_pgpu(x, *there) || left.place_for(what))
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
