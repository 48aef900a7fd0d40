// vGPUs that do nothing give way, until their next call.
#include "actors/manager_core.hpp"

#include <algorithm>
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
  std::size_t under_way = 0;
  for (const auto& [id, x] : sessions_) {
    under_way += x.moving && x.moving->idle ? 1 : 0;
    // Until a worker has told of itself, nothing is known of it.
    if (gives_way(x) && x.load.session && may_move(x))
      view.push_back({id, x.active_at,
                      std::chrono::milliseconds{x.spec.idle_after_ms},
                      x.rests_until});
  }
  return policy::choose_idle(view, under_way, now_, options_.reclaim);
}

void manager_core::reclaim_idle() {
  for (auto id : idle_ones().now)
    order_pause(sessions_.at(id),
                {.what = session_movement::kind::suspend, .idle = true});
}

/// It runs on: the attempt is not to be repeated at once.
void manager_core::reclaim_refused(session_record& x) {
  x.rests_until = policy::rest_after(++x.refusals, now_, options_.reclaim);
}

} // namespace vgpu
