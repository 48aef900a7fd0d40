// vGPUs that do nothing give way, until their next call.
#include "actors/manager/manager_core.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

bool gives_way(const session_record& x) {
  return x.spec.idle_after_ms != control::keep_when_idle;
}

} // namespace

/// What a beat tells of when the session was last active.
void manager_core::note_activity(session_record& x) {
  if (!gives_way(x))
    return;
  // Longer is as long: no node knows of as much, and time_points end.
  constexpr std::uint64_t most_ms = std::uint64_t{1} << 40;
  x.active_at =
      now_ - std::chrono::milliseconds{std::min(x.load.idle_ms, most_ms)};
  due(std::max(x.active_at + std::chrono::milliseconds{x.spec.idle_after_ms},
               x.rests_until));
}

policy::reclaim_decision manager_core::idle_ones() const {
  std::vector<policy::idle_session> view;
  policy::suspensions under_way;
  for (const auto& [id, x] : sessions_) {
    if (x.moving && x.moving->idle)
      ++under_way[x.where.node];
    // Until a worker has told of itself, nothing is known of it.
    if (gives_way(x) && x.load.session && may_move(x))
      view.push_back({id, x.where.node, x.active_at,
                      std::chrono::milliseconds{x.spec.idle_after_ms},
                      x.rests_until});
  }
  return policy::choose_idle(view, std::move(under_way), now_,
                             options_.reclaim);
}

void manager_core::reclaim_idle() {
  auto idle = idle_ones().now;
  idle.resize(std::min(idle.size(), most_begun));
  for (auto id : idle)
    order_pause(sessions_.at(id),
                {.what = session_movement::kind::suspend, .idle = true});
}

/// It runs on: the attempt is not to be repeated at once.
void manager_core::reclaim_refused(session_record& x) {
  x.rests_until = policy::rest_after(++x.refusals, now_, options_.reclaim);
}

} // namespace vgpu
