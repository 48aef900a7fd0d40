#include "actors/manager/sessions/idle_reclaimer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

bool may_be_reclaimed(const session_record& x) {
  return x.spec.idle_after_ms != control::keep_when_idle;
}

} // namespace

idle_reclaimer::idle_reclaimer(const manager_options& options,
                               manager_clock& clock, cluster_state& state,
                               movement& moves)
    : options_(options), clock_(clock), state_(state), moves_(moves) {}

void idle_reclaimer::note_activity(session_record& x) {
  if (!may_be_reclaimed(x))
    return;
  // This bounds the value, because time_points overflow. No node reports as
  // much.
  constexpr std::uint64_t most_ms = std::uint64_t{1} << 40;
  x.active_at = clock_.now() -
                std::chrono::milliseconds{std::min(x.load.idle_ms, most_ms)};
  clock_.due(
      std::max(x.active_at + std::chrono::milliseconds{x.spec.idle_after_ms},
               x.rests_until));
}

policy::reclaim_decision idle_reclaimer::decide() const {
  std::vector<policy::idle_session> view;
  policy::suspensions under_way;
  for (const auto& [id, x] : state_.sessions) {
    if (x.moving && x.moving->idle)
      ++under_way[x.where.node];
    // Until a worker has reported, nothing is known of it.
    if (may_be_reclaimed(x) && x.load.session && moves_.may_move(x))
      view.push_back({id, x.where.node, x.active_at,
                      std::chrono::milliseconds{x.spec.idle_after_ms},
                      x.rests_until});
  }
  return policy::choose_idle(view, std::move(under_way), clock_.now(),
                             options_.reclaim);
}

void idle_reclaimer::on_tick() {
  auto idle = decide().now;
  idle.resize(std::min(idle.size(), movement::most_begun_at_once));
  for (auto id : idle)
    moves_.order(state_.sessions.at(id),
                 {.what = session_movement::kind::suspend, .idle = true});
}

void idle_reclaimer::ask_for_ticks() const {
  auto idle = decide();
  if (!idle.now.empty())
    clock_.due(
        clock_.now()); // more sessions are idle than may leave in one tick
  clock_.due(idle.look_again);
}

} // namespace vgpu
