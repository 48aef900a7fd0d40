#include "policies/simulator/simulated_swapping.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vgpu::simulator {

void simulated_swapping::comes(std::uint32_t i) {
  if (turns_.on())
    turns_.of(i).queued_at = scene_.now;
}

void simulated_swapping::has_place(std::uint32_t i) {
  if (!turns_.on())
    return;
  turns_.of(i).got_place = scene_.now;
  turns_.of(i).preempted = false;
}

void simulated_swapping::begins(std::uint32_t i) {
  if (!turns_.on())
    return;
  turns_.of(i).since = scene_.now;
  may_leave(i);
}

void simulated_swapping::is_back(std::uint32_t i) {
  if (!turns_.on())
    return;
  auto& past = turns_.of(i);
  past.since = scene_.now;
  if (past.left_in <= 0)
    return;
  past.swapped = past.left_in + scene_.copy_time(i);
  swapping_ += scene_.copy_time(i);
  past.left_in = 0;
}

void simulated_swapping::was_moved(std::uint32_t i) {
  if (turns_.on())
    turns_.of(i).since = scene_.now;
}

void simulated_swapping::may_leave(std::uint32_t i) {
  const auto& x = scene_.asked_by(i);
  if (!turns_.on() || x.memory == 0)
    return;
  const auto& g = scene_.sessions[i];
  const auto& past = turns_.of(i);
  policy::resident out;
  out.id = session_id{i + std::uint64_t{1}};
  out.where = g.where;
  out.memory = x.memory;
  out.priority = x.priority;
  out.since = point(past.since);
  out.swap = point(past.swapped).time_since_epoch();
  out.state = static_cast<std::uint64_t>(scene_.bytes_of(i));
  turns_.may_leave(i, g.node, std::move(out));
}

void simulated_swapping::leaves(std::uint32_t i) {
  if (!turns_.on())
    return;
  turns_.stays(i);
  if (scene_.asked_by(i).memory != 0)
    had_memory_ += scene_.now - turns_.of(i).got_place;
}

void simulated_swapping::made_room(std::uint32_t i) {
  auto& past = turns_.of(i);
  turns_.has_left(i);
  past.preempted = true;
  past.queued_at = scene_.now;
  past.left_in = scene_.copy_time(i);
  swapping_ += past.left_in;
}

std::vector<std::uint32_t> simulated_swapping::make_room() {
  std::vector<std::uint32_t> out;
  soonest_ = never;
  if (!turns_.on())
    return out;
  // If no vGPU can leave for a demand, none can leave for a demand for at least
  // as much memory of the same or a lower priority.
  auto least_failed = std::numeric_limits<std::uint64_t>::max();
  policy::vain_searches vain;
  queue_.serve_promised([&](const admission::rank& at) -> admission::verdict {
    auto i = admission::number_of(at);
    const auto& x = scene_.asked_by(i);
    auto lane = queue_.lane_of(i);
    if (x.memory == 0 || turns_.is_awaited_by(i))
      return {};
    if (auto first = turns_.first_end(); first > point(scene_.now)) {
      // The end of a suspension causes another pass anyway.
      if (first != policy::time_point::max())
        soonest_ = std::min(soonest_, seconds(first));
      return {.enough = true};
    }
    auto ordered = lane != 0 && at.fresh;
    if (ordered && x.memory >= least_failed)
      return {.open = lane};
    policy::room_decision room;
    if (!vain.cover(x.priority, x.memory))
      room = turns_.make_room(places_.index(), places_.demand_of(i), x.priority,
                              point(scene_.now));
    vain.note(x.priority, room);
    for (auto id : room.leave) {
      auto leaver = static_cast<std::uint32_t>(id.value - 1);
      turns_.leaves(leaver, i);
      out.push_back(leaver);
    }
    if (!room.leave.empty())
      return {};
    if (room.look_again)
      soonest_ = std::min(soonest_, seconds(*room.look_again));
    if (!ordered)
      return {};
    least_failed = std::min(least_failed, x.memory);
    return {.open = lane};
  });
  return out;
}

void simulated_swapping::look_again() {
  if (!turns_.on())
    return;
  // The delay keeps rounding from scheduling events that are always too early.
  constexpr double after = 1e-6;
  ++version_;
  if (soonest_ < never)
    scene_.events.expect(soonest_ + after, event::kind::turn_ends, 0, version_);
}

} // namespace vgpu::simulator
