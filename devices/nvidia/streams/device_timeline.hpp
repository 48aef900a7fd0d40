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

/// Times spans of a stream's work between two timing events. A span begins with
/// the stream's first work, and ends where a caller asks for the end, or where
/// the host is about to take long with the next work. So a span costs two
/// records. begin(), end(), time() and delay() belong to the thread that
/// enqueues, settle() to the thread that runs completions, and total() to any
/// thread.
class timeline {
public:
  /// Holds the part of a stream's work that is timed and has no end yet.
  struct span {
    event_ref began;
    timed_for whom = timed_for::nobody;
  };

  explicit timeline(driver_ptr api) : api_(api), pool_(std::move(api)) {}

  /// Loads the kernel that delay() needs. The caller does this before there is
  /// any work.
  status load();

  /// Implements timing_unit::time().
  void time(timed_for whom) noexcept { whom_ = whom; }
  /// Implements timing_unit::delay().
  void delay() noexcept { delays_ = true; }

  /// Begins a span for new work of the stream if none is open.
  void begin(span& x, CUstream in) {
    if (x.began || whom_ == timed_for::nobody) [[likely]]
      return;
    open(x, in);
  }
  /// Ends the open span before a pause of the stream.
  void end(span& x, CUstream in) {
    if (x.began) [[unlikely]]
      close(x, in);
  }

  /// Adds the spans that are done by now to the totals.
  void settle();
  /// Returns the total time that was counted for `whom`.
  std::chrono::nanoseconds total(timed_for whom) const noexcept {
    return std::chrono::nanoseconds{
        totals_[static_cast<std::size_t>(whom)].load()};
  }

private:
  struct closed {
    event_ref began, ended;
    timed_for whom = timed_for::nobody;
  };
  /// Holds a span in milliseconds. `begin` counts from the latest end that is
  /// counted.
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
  CUfunction delay_ = nullptr; // a kernel that takes some time, or null
  bool delays_ = false;
  std::mutex mutex_;          // guards closed_, counted_until_, covered_
  std::deque<closed> closed_; // in the order in which their ends were recorded
  event_ref counted_until_;   // the latest end that is counted, if near
  double covered_ = 0;        // milliseconds counted without a gap before it
  std::array<std::atomic<std::int64_t>, 3> totals_{}; // ns
};

} // namespace vgpu::device::nvidia
