#include "actors/state/event_times.hpp"

#include "actors/state/device_wait.hpp"

#include <algorithm>

namespace vgpu {

namespace {

/// Names our own events. Their numbers are apart from those of programs and of
/// stream_order.
constexpr event_id anchor{std::uint64_t{1} << 62};
constexpr event_id moment{anchor.value + 1};

fault keeps_no_time(event_id x) {
  return {CUDA_ERROR_INVALID_HANDLE,
          "event " + std::to_string(x.value) + " keeps no time"};
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

result<double> event_times::before_now(device::device& on, event_id x,
                                       event_id now) {
  auto past = past_.find(x);
  auto since = on.elapsed(past == past_.end() ? x : anchor, now);
  if (!since)
    return since.why();
  return double{*since} + (past == past_.end() ? 0 : past->second.milliseconds);
}

result<std::vector<event_time>> event_times::capture(device::device& on) {
  std::vector<event_time> out;
  auto any = [](auto& x) { return x.second.recorded; };
  if (std::none_of(events_.begin(), events_.end(), any))
    return out;
  if (auto ok = record_now(on, moment); !ok)
    return ok.why();
  for (auto& [id, x] : events_) {
    if (!x.recorded)
      continue;
    if (!x.timed) {
      out.push_back({id, 0, false});
      continue;
    }
    auto span = before_now(on, id, moment);
    if (!span)
      return span.why();
    out.push_back({id, *span, true});
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
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "a state tells when event " + std::to_string(x.event.value) +
                       " was recorded, which does not exist in it"};
    found->second.recorded = true;
    past_.emplace(x.event, x);
  }
  if (past.empty() || std::exchange(anchored_, true))
    return {};
  return record_now(on, anchor);
}

} // namespace vgpu
