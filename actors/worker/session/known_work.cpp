#include "actors/worker/session/known_work.hpp"

#include <algorithm>

namespace vgpu {

void known_work::opens(place in, call_number call) {
  streams_[in].insert(call.value);
}

void known_work::follows(place in, place other) {
  if (auto found = streams_.find(other); found != streams_.end()) {
    auto behind = found->second;
    streams_[in].merge(behind);
  }
}

void known_work::follows(place in, event_place event) {
  if (auto found = events_.find(event); found != events_.end()) {
    auto behind = found->second.behind;
    streams_[in].merge(behind);
  }
}

std::optional<event_id> known_work::recorded(event_place event, place in,
                                             std::optional<event_id> copy) {
  std::optional<event_id> unused;
  if (auto before = events_.extract(event); !before.empty())
    unused = before.mapped().copy;
  if (auto found = streams_.find(in); found != streams_.end())
    events_[event] = {found->second, copy};
  return unused;
}

void known_work::learn_later(place in, event_id mark) {
  later_.push_back({streams_.at(in), {in.ordinal, mark}});
}

void known_work::learn_later(event_place event) {
  auto& known = events_.at(event);
  if (auto copy = std::exchange(known.copy, std::nullopt); copy)
    later_.push_back({known.behind, {event.first, *copy}});
}

known_work::freed known_work::ends(call_number call) {
  freed out;
  for (auto& [in, behind] : streams_)
    behind.erase(call.value);
  std::erase_if(streams_, [](auto& x) { return x.second.empty(); });
  for (auto& [event, x] : events_)
    if (x.behind.erase(call.value) != 0 && x.behind.empty() && x.copy)
      out.unused.emplace_back(event.first, *x.copy);
  std::erase_if(events_, [](auto& x) { return x.second.behind.empty(); });
  for (auto& x : later_)
    if (x.behind.erase(call.value) != 0 && x.behind.empty())
      out.known.push_back(x.mark);
  std::erase_if(later_, [](auto& x) { return x.behind.empty(); });
  return out;
}

} // namespace vgpu
