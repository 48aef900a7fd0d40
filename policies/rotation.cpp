#include "policies/rotation.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

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
  explicit emptied(const node_finder& from) : from_(from) {}

  /// Whether one of its pGPUs has so much room then.
  bool without(const resident& x, std::uint64_t memory) {
    return add(x, x.memory, memory);
  }
  void with(const resident& x) { add(x, 0 - x.memory, 0); }
  /// On that node; nowhere else has anything become free.
  std::optional<place> place_on(const std::string& name,
                                const demand& what) const {
    const auto* there = from_(name);
    if (there == nullptr)
      return std::nullopt;
    auto node = *there;
    for (std::size_t i = 0; i < node.pgpus.size(); ++i)
      if (auto found = freed_.find(&there->pgpus[i]); found != freed_.end())
        node.pgpus[i].reserved -=
            std::min(node.pgpus[i].reserved, found->second);
    const node_view* one = &node;
    return best_place({&one, 1}, what, placement_strategy::least_loaded);
  }

private:
  bool add(const resident& x, std::uint64_t bytes, std::uint64_t wanted) {
    auto fits = false;
    if (const auto* node = from_(x.where.node))
      for (const auto& pgpu : node->pgpus)
        if (std::ranges::count(x.where.pgpus, pgpu.ordinal) != 0) {
          auto& freed = freed_[&pgpu];
          freed += bytes;
          fits = fits || free_of(pgpu) + freed >= wanted;
        }
    return fits;
  }

  const node_finder& from_;
  std::unordered_map<const pgpu_view*, std::uint64_t> freed_; // bytes
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

void sort_by_turn(std::span<resident> all, const rotation_options& options) {
  std::ranges::sort(all, {}, [&](const auto& x) {
    return std::tuple{turn_ends(x, options), x.id.value};
  });
}

room_decision make_room(const node_finder& nodes, const demand& what,
                        std::int32_t priority, const next_resident& next,
                        time_point now, const rotation_options& options) {
  // Until somebody has left, there is no place; then only where he was.
  std::vector<std::pair<time_point, const resident*>> leaving;
  emptied left{nodes};
  std::optional<place> there;
  while (!there && leaving.size() < most_looked_at) {
    const auto* x = next();
    if (x == nullptr)
      break;
    if (x->priority > priority)
      continue;
    leaving.emplace_back(turn_ends(*x, options), x);
    if (left.without(*x, what.memory))
      there = left.place_on(x->where.node, what);
  }
  if (!there)
    return {};
  // The last one is needed; of those before, who is elsewhere is not, and who
  // was not enough by itself may not be.
  room_decision out;
  for (auto i = leaving.size(); i-- > 0;) {
    const auto& x = *leaving[i].second;
    left.with(x);
    if (!share_pgpu(x, *there) || left.place_on(there->node, what))
      continue;
    left.without(x, 0);
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
