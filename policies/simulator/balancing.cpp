#include "policies/simulator/balancing.hpp"

#include <algorithm>
#include <utility>

namespace vgpu::simulator {

balancing::balancing(scene& all, const places& where, const programs& what,
                     const admission& queue)
    : scene_(all), places_(where), programs_(what), queue_(queue),
      all_have_memory_(std::ranges::all_of(all.trace, [](const auto& x) {
        return x.constraints.memory != 0;
      })) {}

void balancing::watch() {
  auto every = scene_.options.balance_every;
  if (!every || looking_ || !programs_.is_any_overloaded())
    return;
  looking_ = true;
  scene_.events.expect(scene_.now + *every, event::kind::look);
}

std::optional<std::uint32_t> balancing::look() {
  const auto& options = scene_.options;
  scene_.events.expect(scene_.now + *options.balance_every, event::kind::look);
  if (moving_)
    return std::nullopt;
  auto move =
      may_any_move() && may_be_hot()
          ? policy::choose_move(view(), point(scene_.now), options.balance)
          : std::nullopt;
  if (!hot_.stays(move, options.balance_samples))
    return std::nullopt;
  moving_ = true;
  target_ = std::move(move->to);
  return static_cast<std::uint32_t>(move->vgpu.value - 1);
}

/// Returns whether a decision could find anything. It is a cheap test before
/// the view of the whole cluster, since samples are frequent.
bool balancing::may_be_hot() const {
  auto sum = 0.0;
  auto most = 0.0;
  auto pgpus = scene_.pgpus();
  for (std::uint32_t p = 0; p < pgpus; ++p) {
    sum += programs_.wanted(p);
    most = std::max(most, programs_.wanted(p));
  }
  return most > 1 && most > sum / static_cast<double>(pgpus) +
                                scene_.options.balance.threshold;
}

/// Returns whether any vGPU may move. One with memory stays while others wait
/// for memory.
bool balancing::may_any_move() const {
  return queue_.size() == 0 || !all_have_memory_;
}

policy::balance_view balancing::view() const {
  policy::balance_view out{places_.index().cluster(), {}};
  for (auto& node : out.cluster.nodes)
    for (auto& pgpu : node.pgpus)
      pgpu.held = pgpu.reserved;
  for (std::uint32_t i = 0; i < scene_.sessions.size(); ++i) {
    const auto& g = scene_.sessions[i];
    if (g.stage != simulated_stage::placed)
      continue;
    const auto& x = scene_.trace[i];
    auto& to = out.vgpus.emplace_back();
    to.id = vgpu_id{i + std::uint64_t{1}};
    to.where = g.where;
    to.constraints = places_.demand_of(i);
    to.bytes = x.constraints.memory;
    to.load = g.idle ? 0 : std::min(x.load, x.constraints.limit);
    to.movable = g.copy == simulated_copy::none &&
                 to.constraints.affinity.empty() &&
                 (to.bytes == 0 || queue_.size() == 0);
    if (g.was_moved)
      to.moved = point(g.moved_at);
  }
  return out;
}

} // namespace vgpu::simulator
