#include "policies/simulator/tally.hpp"

#include "policies/simulator/distribution.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace vgpu::simulator {

void tally::is_placed(std::uint32_t i) {
  first_waits_.push_back(scene_.sessions[i].waited);
}

void tally::is_done(std::uint32_t i) {
  const auto& x = scene_.trace[i];
  ++scene_.out.finished;
  auto idle = std::accumulate(
      x.idle.begin(), x.idle.end(), 0.0,
      [](double sum, const auto& phase) { return sum + phase.lasts; });
  // Idle time counts if the vGPU spent it in a queue or while it was copied.
  auto took = std::max(scene_.now - x.at - idle, x.runs);
  slowdowns_.push_back(took / x.runs);
  speeds_.push_back(x.runs / took);
}

/// Returns the total waiting time up to now.
double tally::waited_by(std::uint32_t i) const {
  const auto& g = scene_.sessions[i];
  return g.stage == simulated_stage::waiting
             ? g.waited + scene_.now - g.asked_at
             : g.waited;
}

void tally::finish() {
  std::vector<double> waits;
  for (std::uint32_t i = 0; i < scene_.sessions.size(); ++i) {
    const auto& g = scene_.sessions[i];
    if (g.had_place || g.stage != simulated_stage::gone || g.waited > 0)
      waits.push_back(waited_by(i));
    if (!g.had_place && g.waited + scene_.now - g.asked_at > 0 &&
        (g.stage == simulated_stage::waiting || g.waited > 0))
      first_waits_.push_back(waited_by(i));
  }
  auto& out = scene_.out;
  out.ended = scene_.now;
  out.waiting = distribution_of(std::move(waits));
  out.first_waiting = distribution_of(std::move(first_waits_));
  out.slowdown = distribution_of(std::move(slowdowns_));
  out.fairness = jain_index(speeds_);
}

} // namespace vgpu::simulator
