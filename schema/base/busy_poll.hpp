// How long it pays to look on before one sleeps.
#pragma once

#include "schema/base/fault.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace vgpu {

/// How long one look may be.
struct busy_poll_limits {
  std::chrono::nanoseconds longest{0};
  /// Where another thread wanted the processor lately. Not more than that.
  std::chrono::nanoseconds contested{0};
};

/// Learns how long to look for something before sleeping until it comes. A
/// wake-up costs some microseconds, more where an idle processor halts, and a
/// look of that length costs no more than one in vain.
///
/// What comes within the longest look is worth looking for, and the next look
/// gets longer; what comes later makes it shorter, so that a wait for a long
/// kernel costs one look at most; and after a rest there is hardly any until
/// there was something to look for a few times. A thread that finds, while it
/// looks, that its processor was taken away takes it for a sign that there are
/// none to spare, and looks less for some time.
///
/// Thread-safe; of several threads that learn at once some may not count.
class busy_poll {
public:
  using clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

  explicit constexpr busy_poll(busy_poll_limits limits) noexcept
      : limits_(limits), time_(limits.longest.count()) {}

  /// How long to look, of a look that begins now.
  nanoseconds time(clock::time_point now) const noexcept;
  /// What was waited for came after so long, looked for or slept for.
  void learned(nanoseconds waited) noexcept;
  /// Somebody else had the processor while this thread looked.
  void interrupted(clock::time_point now) noexcept;

  /// Asks `found` until it says yes or the look has been long enough. What it
  /// finds is learned; where it finds nothing, the caller sleeps and tells by
  /// learned() how long the wait was in all.
  template <class Found>
  bool look(clock::time_point began, const Found& found);

private:
  /// A short look costs less than to find out again that it pays.
  static constexpr nanoseconds shortest{1'000};
  /// Who waited so long is at rest.
  static constexpr nanoseconds rest{10'000'000};
  /// One round of a look takes a microsecond or so, and a few more where a
  /// thread of the kernel's has the processor for a moment. After one that took
  /// as long as others look the kernel is asked why.
  static constexpr nanoseconds long_round{50'000};
  static constexpr nanoseconds contested_for{5'000'000};

  /// Whether another thread was given this one's processor since that was
  /// asked on this thread. Not where the host of a virtual machine took it.
  static bool was_preempted() noexcept;

  busy_poll_limits limits_;
  std::atomic<nanoseconds::rep> time_;
  std::atomic<nanoseconds::rep> contested_until_{0}; // since the clock began
};

inline busy_poll::nanoseconds
busy_poll::time(clock::time_point now) const noexcept {
  nanoseconds out{time_.load(std::memory_order_relaxed)};
  nanoseconds until{contested_until_.load(std::memory_order_relaxed)};
  return now.time_since_epoch() < until ? std::min(out, limits_.contested)
                                        : out;
}

inline void busy_poll::learned(nanoseconds waited) noexcept {
  nanoseconds now{time_.load(std::memory_order_relaxed)};
  auto next = waited <= limits_.longest ? 4 * now
              : waited < rest           ? now / 2
                                        : nanoseconds{0};
  next = std::clamp(next, std::min(shortest, limits_.longest), limits_.longest);
  if (next != now)
    time_.store(next.count(), std::memory_order_relaxed);
}

inline void busy_poll::interrupted(clock::time_point now) noexcept {
  contested_until_.store((now.time_since_epoch() + contested_for).count(),
                         std::memory_order_relaxed);
}

template <class Found>
bool busy_poll::look(clock::time_point began, const Found& found) {
  auto at_most = time(began);
  if (at_most <= nanoseconds{0})
    return false;
  for (auto last = began;;) {
    if (found()) {
      learned(last - began);
      return true;
    }
    auto now = clock::now();
    if (now - last > long_round && was_preempted()) {
      interrupted(now);
      at_most = time(now);
    }
    if (now - began >= at_most)
      return false;
    last = now;
  }
}

/// What a process's looks are limited to.
struct busy_poll_choice {
  /// Nothing where there are no processors to spare.
  std::optional<std::chrono::nanoseconds> longest;

  /// Of who may look for `scarce` wherever it is.
  busy_poll_limits limits(std::chrono::nanoseconds scarce) const noexcept {
    auto most = longest.value_or(scarce);
    return {most, std::min(most, scarce)};
  }
};

/// `asked` is what VGPU_BUSY_POLL says, or null. A fault where that is no
/// number of microseconds from 0 to 1000.
result<busy_poll_choice> choose_busy_poll(const char* asked,
                                          unsigned processors);
/// For this process: by its environment, and by the processors that it may use.
result<busy_poll_choice> chosen_busy_poll();

} // namespace vgpu
