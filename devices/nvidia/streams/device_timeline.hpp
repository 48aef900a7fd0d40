// How long the device worked, by its own clock.
#pragma once

#include "devices/interface/timing_unit.hpp"
#include "devices/nvidia/streams/completions.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <vector>

namespace vgpu::device::nvidia {

/// Times spans of work between two events that keep times: of one stream, from
/// its first work to where somebody asks for the end, or where the host is
/// about to be long with what comes next. So there are two records a span.
/// begin(), end(), time() and delay() belong to the thread that enqueues,
/// settle() to the one that tells of completions, total() to any.
class timeline {
public:
  /// A stream's work that is timed, and has no end yet.
  struct span {
    event_ref began;
    timed_for whom = timed_for::nobody;
  };

  explicit timeline(driver_ptr api) : api_(api), pool_(std::move(api)) {}

  /// Loads what delay() needs. Before there is any work.
  status load();

  void time(timed_for whom) noexcept { whom_ = whom; }
  void delay() noexcept { delays_ = true; }

  /// Work comes to the stream.
  void begin(span& x, CUstream in) {
    if (x.began || whom_ == timed_for::nobody) [[likely]]
      return;
    open(x, in);
  }
  /// No more comes for a while.
  void end(span& x, CUstream in) {
    if (x.began) [[unlikely]]
      close(x, in);
  }

  /// Counts the spans that are done by now.
  void settle();
  std::chrono::nanoseconds total(timed_for whom) const noexcept {
    return std::chrono::nanoseconds{
        totals_[static_cast<std::size_t>(whom)].load()};
  }

private:
  struct closed {
    event_ref began, ended;
    timed_for whom = timed_for::nobody;
  };
  /// Milliseconds; it begins so long after the end of what is counted.
  struct measured {
    double begin, length;
    timed_for whom;
    event_ref ended;
  };

  void open(span& x, CUstream in);
  void close(span& x, CUstream in);
  std::vector<measured> take_done();

  driver_ptr api_;
  event_pool pool_;
  timed_for whom_ = timed_for::nobody;
  CUfunction delay_ = nullptr; // a kernel that takes time; null: there is none
  bool delays_ = false;
  std::mutex mutex_;          // guards:
  std::deque<closed> closed_; // in the order of their ends' records
  event_ref counted_until_;   // the latest end of what is counted, if near
  double covered_ = 0;        // milliseconds before it without a gap
  std::array<std::atomic<std::int64_t>, 3> totals_{}; // ns
};

} // namespace vgpu::device::nvidia
