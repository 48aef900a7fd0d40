#include "policies/simulator/programs.hpp"

#include <algorithm>

namespace vgpu::simulator {

programs::programs(scene& all)
    : scene_(all), devices_(all.pgpus(), all.options.sharing,
                            [this](std::uint32_t i) { reckon(i); }) {}

void programs::settle(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  const auto& x = scene_.asked_by(i);
  g.since = scene_.now;
  for_pgpus(g, [&](std::uint32_t p) {
    devices_.add(p, i, {x.share, x.limit, x.priority});
    in_use_ += devices_.users(p) == 1 ? 1 : 0;
  });
  scene_.out.most_pgpus = std::max(scene_.out.most_pgpus, in_use_);
}

void programs::leave(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  advance(i);
  for_pgpus(g, [&](std::uint32_t p) {
    devices_.remove(p, i);
    in_use_ -= devices_.users(p) == 0 ? 1 : 0;
  });
  g.rate = 0;
  ++g.version;
}

void programs::begin(std::uint32_t i) {
  const auto& x = scene_.trace[i];
  scene_.sessions[i].left = x.idle.empty() ? x.runs : x.idle.front().after;
}

void programs::work(std::uint32_t i) {
  scene_.sessions[i].since = scene_.now;
  want(i, scene_.trace[i].load);
}

void programs::rest(std::uint32_t i) {
  want(i, 0);
}

bool programs::is_idle_now(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  const auto& x = scene_.trace[i];
  advance(i);
  if (g.phase >= x.idle.size())
    return false;
  want(i, 0);
  g.idle = true;
  g.idle_from = scene_.now;
  auto lasts = x.idle[g.phase].lasts;
  scene_.events.expect(scene_.now + lasts, event::kind::idle_ends, i, g.phase);
  auto after = x.constraints.idle_after_ms / 1e3;
  if (x.constraints.idle_after_ms != control::keep_when_idle && after < lasts)
    scene_.events.expect(scene_.now + after, event::kind::idle_long, i,
                         g.phase);
  return true;
}

void programs::wake(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  const auto& x = scene_.trace[i];
  g.idle = false;
  ++g.phase;
  if (g.phase < x.idle.size()) {
    g.left = x.idle[g.phase].after;
    return;
  }
  g.left = x.runs;
  for (const auto& phase : x.idle)
    g.left -= phase.after;
  g.left = std::max(g.left, 0.0);
}

void programs::advance(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  g.left = std::max(0.0, g.left - g.rate * (scene_.now - g.since));
  g.since = scene_.now;
}

void programs::want(std::uint32_t i, double load) {
  for_pgpus(scene_.sessions[i],
            [&](std::uint32_t p) { devices_.want(p, i, load); });
}

/// Recomputes when the work ends, because the grants may have changed.
void programs::reckon(std::uint32_t i) {
  auto& g = scene_.sessions[i];
  auto got = never;
  for_pgpus(
      g, [&](std::uint32_t p) { got = std::min(got, devices_.granted(p, i)); });
  auto rate = got / scene_.trace[i].load;
  if (rate == g.rate)
    return;
  advance(i);
  g.rate = rate;
  ++g.version;
  if (rate > 0)
    scene_.events.expect(scene_.now + g.left / rate, event::kind::work_ends, i,
                         g.version);
}

} // namespace vgpu::simulator
