#include "actors/state/event_times.hpp"

#include "actors/state/device_wait.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

/// Names our own events. Their numbers are apart from those of programs and of
/// stream_order.
constexpr event_id anchor{std::uint64_t{1} << 62};
constexpr event_id moment{anchor.value + 1};

fault keeps_no_time(event_id x) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                    "event " + std::to_string(x.value) + " keeps no time");
}

/// Records one of our own events, and waits for it.
status record_now(device::device& on, event_id x) {
  if (auto ok = on.create_event(x, true); !ok)
    return ok;
  if (auto ok = on.record_event(x, legacy_stream); !ok)
    return ok;
  return wait_for(on, "an event");
}

} // namespace

void event_times::recorded(event_id x) {
  events_[x].recorded = true;
  if (!past_.empty())
    past_.erase(x);
}

void event_times::destroyed(event_id x) {
  events_.erase(x);
  past_.erase(x);
}

result<float> event_times::elapsed(device::device& on, event_id from,
                                   event_id to) {
  auto a = past_.find(from);
  auto b = past_.find(to);
  if (a == past_.end() && b == past_.end())
    return on.elapsed(from, to);
  for (auto x : {a, b})
    if (x != past_.end() && !x->second.timed)
      return keeps_no_time(x->first);
  if (a != past_.end() && b != past_.end())
    return static_cast<float>(a->second.milliseconds - b->second.milliseconds);
  auto before = a != past_.end();
  auto since = on.elapsed(anchor, before ? to : from);
  if (!since)
    return since;
  auto span = (before ? a : b)->second.milliseconds + double{*since};
  return static_cast<float>(before ? span : -span);
}

result<std::map<event_id, double>> event_times::before_now(device::device& on,
                                                           event_id now) {
  // A device returns the time between two events as a float, whose error grows
  // with the time. So each event is measured to the one recorded after it, and
  // only the last one to `now`. Then times between events stay exact, however
  // old they are.
  std::vector<std::pair<float, event_id>> order;
  auto add = [&](event_id x) -> status {
    auto since = on.elapsed(x, now);
    if (!since)
      return since.why();
    order.emplace_back(*since, x);
    return {};
  };
  for (auto& [id, x] : events_)
    if (x.recorded && x.timed && !past_.contains(id))
      if (auto ok = add(id); !ok)
        return ok.why();
  if (anchored_)
    if (auto ok = add(anchor); !ok)
      return ok.why();
  std::sort(order.begin(), order.end());
  std::map<event_id, double> out;
  double before = 0;
  auto next = now;
  for (auto& [roughly, id] : order) {
    auto span = on.elapsed(id, next);
    if (!span)
      return span.why();
    before += double{*span};
    out.emplace(id, before);
    next = id;
  }
  return out;
}

result<std::vector<event_time>> event_times::capture(device::device& on) {
  std::vector<event_time> out;
  auto any = [](auto& x) { return x.second.recorded; };
  if (std::none_of(events_.begin(), events_.end(), any))
    return out;
  if (auto ok = record_now(on, moment); !ok)
    return ok.why();
  auto before = before_now(on, moment);
  if (!before)
    return before.why();
  for (auto& [id, x] : events_) {
    if (!x.recorded)
      continue;
    if (!x.timed) {
      out.push_back({id, 0, false});
      continue;
    }
    auto past = past_.find(id);
    out.push_back({id,
                   past == past_.end()
                       ? before->at(id)
                       : before->at(anchor) + past->second.milliseconds,
                   true});
  }
  if (auto ok = on.destroy_event(moment); !ok)
    return ok.why();
  return out;
}

status event_times::restore(device::device& on,
                            std::span<const event_time> past) {
  for (auto& x : past) {
    auto found = events_.find(x.event);
    if (found == events_.end())
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "a state has the time of event " +
                            std::to_string(x.event.value) +
                            ", which does not exist in it");
    found->second.recorded = true;
    past_.emplace(x.event, x);
  }
  if (past.empty() || std::exchange(anchored_, true))
    return {};
  return record_now(on, anchor);
}

} // namespace vgpu
