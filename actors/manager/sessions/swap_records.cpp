#include "actors/manager/sessions/swap_records.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vgpu {

namespace {

/// Bounds the times that clients report. A session keeps its memory for a
/// multiple of them, so an excessive one would let it keep the memory for ever.
constexpr std::chrono::minutes longest_believed{5};

policy::duration believed(double milliseconds) {
  using given = std::chrono::duration<double, std::milli>;
  auto most = given{longest_believed}.count();
  auto within = milliseconds > 0 ? std::min(milliseconds, most) : 0; // not NaN
  return std::chrono::duration_cast<policy::duration>(given{within});
}

} // namespace

void note_swapped_out(session_record& x, time_point now, double milliseconds) {
  x.preempted = true;
  x.swapping.queued_at = now;
  x.swapping.out = believed(milliseconds);
}

void note_resident(session_record& x, time_point now) {
  x.preempted = false;
  if (!std::exchange(x.swapping.residence_known, false))
    x.swapping.resident_since = now;
}

void note_swapped_in(session_record& x, time_point now, double milliseconds) {
  auto& times = x.swapping;
  times.resident_since = now;
  if (times.out > policy::duration{0})
    times.out_and_in = times.out + believed(milliseconds);
  times.out = {};
}

void take_over_swap_times(session_record& x, time_point now,
                          const control::memory_turns& told) {
  auto& times = x.swapping;
  if (!std::exchange(times.from_former_manager, false))
    return;
  auto since = now - std::chrono::milliseconds{told.since_ms};
  auto out = believed(told.left_in_ms);
  if (told.back_in_ms != 0)
    times.out_and_in = out + believed(told.back_in_ms);
  if (x.placed()) {
    times.resident_since = since;
    times.residence_known = x.stage == session_stage::starting;
    return;
  }
  x.preempted = x.preempted || told.preempted;
  if (!x.preempted || told.since_ms == 0)
    return;
  times.queued_at = since;
  times.out = out;
}

} // namespace vgpu
