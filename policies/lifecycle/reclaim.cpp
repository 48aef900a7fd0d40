#include "policies/lifecycle/reclaim.hpp"

#include <algorithm>
#include <tuple>

namespace vgpu::policy {

reclaim_decision choose_idle(std::span<const idle_session> all,
                             suspensions under_way, time_point now,
                             const reclaim_options& options) {
  reclaim_decision out;
  std::vector<const idle_session*> ripe;
  for (const auto& x : all) {
    auto when = std::max(x.active + x.after, x.rests_until);
    if (when <= now)
      ripe.push_back(&x);
    else if (!out.look_again || when < *out.look_again)
      out.look_again = when;
  }
  std::sort(ripe.begin(), ripe.end(), [](const auto* a, const auto* b) {
    return std::tie(a->active, a->id) < std::tie(b->active, b->id);
  });
  for (const auto* x : ripe)
    if (auto& leaving = under_way[x->node]; leaving < options.at_once) {
      ++leaving;
      out.now.push_back(x->id);
    }
  return out;
}

time_point rest_after(unsigned refusals, time_point now,
                      const reclaim_options& options) {
  auto rest = options.first_rest;
  for (auto i = 1u; i < refusals && rest < options.longest_rest; ++i)
    rest *= 2;
  return now + std::min(rest, options.longest_rest);
}

} // namespace vgpu::policy
