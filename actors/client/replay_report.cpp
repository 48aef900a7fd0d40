#include "actors/client/replay_report.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace vgpu {

void replay_report::begin_first() noexcept {
  phase_ = phase::first;
  range_ = {};
  began_ = clock::now();
}

void replay_report::begin(const range& what, bool replays) noexcept {
  phase_ = replays ? phase::replaying : phase::answered;
  range_ = what;
  began_ = clock::now();
}

void replay_report::note(const data::progress& x) {
  if (phase_ == phase::replaying && x.received >= range_.until && !x.compares) {
    phase_ = phase::replayed;
    tell_replayed(x.calls);
  }
  if (x.answers != 0)
    note_answer();
}

void replay_report::note_answer() {
  if (phase_ != phase::replayed)
    return;
  phase_ = phase::answered;
  tell_first_result();
}

double replay_report::milliseconds_since_begin() const {
  using milliseconds = std::chrono::duration<double, std::milli>;
  return milliseconds{clock::now() - began_}.count();
}

void replay_report::tell_replayed(std::uint64_t calls) {
  calls -= std::min(calls, range_.calls_before);
  auto event = reports_.make_event(
      "session-replayed",
      reports_.program() + ": " + std::to_string(calls) +
          " calls were replayed on " + lease_.current().node +
          (range_.from == 0 ? "" : ", those since its last snapshot"));
  event.calls = calls;
  event.bytes = range_.until - range_.from;
  event.milliseconds = milliseconds_since_begin();
  reports_.tell(std::move(event));
}

void replay_report::tell_first_result() {
  auto event = reports_.make_event(
      "first-result", reports_.program() + " got its first new result from " +
                          lease_.current().node);
  event.milliseconds = milliseconds_since_begin();
  reports_.tell(std::move(event));
}

} // namespace vgpu
