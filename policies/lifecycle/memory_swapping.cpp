#include "policies/lifecycle/memory_swapping.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace vgpu::policy {

namespace {

/// Gives the assumed speed of both copies, in bytes per second, until one was
/// measured.
constexpr double guessed_speed = 1e9;

duration swap_of(const resident& x) {
  if (x.swap > duration{0})
    return x.swap;
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>(
      2 * static_cast<double>(x.state) / guessed_speed));
}

/// Nodes without the memory that some of their sessions reserve. The sessions
/// must outlive it, because it refers to their nodes' names.
class emptied {
public:
  explicit emptied(const node_finder& from) : from_(from) {}

  /// Removes a session. Returns whether one of its pGPUs then has `memory`
  /// bytes of room.
  bool without(const resident& x, std::uint64_t memory) {
    return add(x, x.memory, memory);
  }
  void with(const resident& x) { add(x, 0 - x.memory, 0); }
  /// Returns the largest room, in bytes, that any of those pGPUs had.
  std::uint64_t most_room() const noexcept { return most_room_; }
  /// Chooses a place on that node only, because nothing became free elsewhere.
  std::optional<place> place_on(const std::string& name,
                                const demand& what) const {
    const auto& [there, freed] = nodes_.at(name);
    if (there == nullptr)
      return std::nullopt;
    auto node = *there;
    for (std::size_t i = 0; i < node.pgpus.size(); ++i)
      node.pgpus[i].reserved -= std::min(node.pgpus[i].reserved, freed[i]);
    const node_view* one = &node;
    return best_place({&one, 1}, what, placement_strategy::least_loaded);
  }

private:
  struct emptied_node {
    const node_view* there;             // null: the node does not exist
    std::vector<std::uint64_t> freed{}; // bytes on each pGPU
  };

  emptied_node& find(const std::string& name) {
    auto known = nodes_.find(name);
    if (known != nodes_.end())
      return known->second;
    const auto* there = from_(name);
    auto& out = nodes_.emplace(name, emptied_node{there}).first->second;
    out.freed.resize(there == nullptr ? 0 : there->pgpus.size());
    return out;
  }

  bool add(const resident& x, std::uint64_t bytes, std::uint64_t wanted) {
    auto fits = false;
    auto& [there, freed] = find(x.where.node);
    for (std::size_t i = 0; i < freed.size(); ++i)
      if (const auto& pgpu = there->pgpus[i];
          std::ranges::count(x.where.pgpus, pgpu.ordinal) != 0) {
        freed[i] += bytes;
        auto room = free_of(pgpu) + freed[i];
        most_room_ = std::max(most_room_, room);
        fits = fits || room >= wanted;
      }
    return fits;
  }

  const node_finder& from_;
  std::unordered_map<std::string_view, emptied_node> nodes_;
  std::uint64_t most_room_ = 0;
};

bool share_pgpu(const resident& x, const place& there) {
  return x.where.node == there.node &&
         std::ranges::any_of(x.where.pgpus, [&](auto ordinal) {
           return std::ranges::count(there.pgpus, ordinal) != 0;
         });
}

} // namespace

time_point turn_ends(const resident& x, const swapping_options& options) {
  auto least = std::chrono::duration_cast<duration>(
      swap_of(x) * (1 / options.swapped_part - 1));
  return std::max(x.since + std::max(least, options.shortest), x.rests_until);
}

void sort_by_turn(std::span<resident> all, const swapping_options& options) {
  std::ranges::sort(all, {}, [&](const auto& x) {
    return std::tuple{turn_ends(x, options), x.id.value};
  });
}

room_decision make_room(const node_finder& nodes, const demand& what,
                        std::int32_t priority, const next_resident& next,
                        time_point now, const swapping_options& options) {
  // There is no place until some session leaves, and then only where it was.
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
    return {.leave = {}, .look_again = {}, .most_room = left.most_room()};
  // The last session is needed. An earlier one is not if it is elsewhere, and
  // may not be if it did not suffice alone.
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
