#include "policies/simulator/admission_queue.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace vgpu::simulator {

namespace {

/// Returns whether the demand is for nothing but one pGPU. All such demands may
/// have the same pGPUs.
bool is_plain(const control::specification& x) {
  return x.gpus == 1 && x.node.empty() && x.pgpu < 0 && x.backend.empty() &&
         x.capability == 0 && x.where != control::locality::local_only &&
         !x.beside && !x.apart;
}

} // namespace

admission::admission(scene& all, places& where, const swap_candidates& turns,
                     placer try_place)
    : scene_(all), places_(where), turns_(turns),
      try_place_(std::move(try_place)) {
  if (turns_.on())
    queue_ = promised_queue{all.options.swapping.promised * all.bytes()};
}

admission::rank admission::rank_of(std::uint32_t i) const {
  auto urgent = scene_.sessions[i].had_place;
  auto priority = scene_.asked_by(i).priority;
  if (!turns_.on())
    return {urgent, priority, i};
  const auto& past = turns_.of(i);
  urgent = urgent && !past.preempted;
  return {urgent, priority, i,
          urgent ? policy::time_point{} : point(past.queued_at)};
}

/// Returns one of four lanes for each power of two of memory, or lane 0 for a
/// demand that cannot have every pGPU.
waiting_queue::lane admission::lane_of(std::uint32_t i) const {
  const auto& x = scene_.asked_by(i);
  if (!is_plain(x) || x.memory < 4)
    return 0;
  auto power = static_cast<std::uint32_t>(std::bit_width(x.memory)) - 1;
  return power * 4 + static_cast<std::uint32_t>(x.memory >> (power - 2) & 3);
}

bool admission::finds_nothing(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  g.stage = simulated_stage::waiting;
  g.asked_at = scene_.now;
  auto at = rank_of(i);
  auto last = queue_.is_last(at);
  queue_.insert(at, lane_of(i), g.had_place ? 0 : scene_.bytes_of(i));
  if (!last || released_) {
    released_ = true;
    return false;
  }
  if (try_place_(i)) {
    queue_.erase(at, lane_of(i)); // its rank has changed
    return false;
  }
  places_.keep_for(i);
  queue_.settle();
  return true;
}

void admission::forget(std::uint32_t i) {
  queue_.erase(rank_of(i), lane_of(i));
}

void admission::serve() {
  released_ = false;
  places_.release_kept();
  queue_.settle();
  // A demand for at least as much as one that failed fails too.
  auto least_failed = std::numeric_limits<std::uint64_t>::max();
  queue_.serve([&](const rank& x) -> verdict {
    auto i = number_of(x);
    auto memory = scene_.asked_by(i).memory;
    auto lane = lane_of(i);
    if (lane != 0 && memory >= least_failed)
      return {.open = lane};
    if (try_place_(i))
      return {.placed = true};
    places_.keep_for(i);
    if (lane == 0)
      return {};
    least_failed = std::min(least_failed, memory);
    return {.open = lane};
  });
}

} // namespace vgpu::simulator
