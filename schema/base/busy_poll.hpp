// How long it pays to busy-poll before sleeping.
#pragma once

#include "schema/base/fault.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace vgpu {

/// Holds the limits of one busy-poll.
struct busy_poll_limits {
  /// Holds the longest time.
  std::chrono::nanoseconds longest{0};
  /// Holds the longest time while another thread wants the processor. It is not
  /// more than `longest`.
  std::chrono::nanoseconds contested{0};
};

/// Learns how long to busy-poll for an event before sleeping until it comes. A
/// wake-up costs some microseconds, more where an idle processor halts, and an
/// unsuccessful busy-poll of that length costs no more.
///
/// An event within the longest time makes the next busy-poll longer, and a
/// later one makes it shorter, so that a wait for a long kernel costs one
/// busy-poll at most. After a rest it is close to zero until it has paid a few
/// times. A thread whose processor is taken away while it busy-polls concludes
/// that no processor is to spare, and busy-polls less for some time.
///
/// Thread-safe. Of results that several threads report at once, some may be
/// lost.
class busy_poll {
public:
  using clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

  explicit constexpr busy_poll(busy_poll_limits limits) noexcept
      : limits_(limits), time_(limits.longest.count()) {}

  /// Returns how long a busy-poll that begins now may take.
  nanoseconds time(clock::time_point now) const noexcept;
  /// Reports that the event came after `waited`, during the busy-poll or after
  /// it.
  void learned(nanoseconds waited) noexcept;
  /// Reports that another thread had the processor during a busy-poll.
  void interrupted(clock::time_point now) noexcept;

  /// Calls `found` until it returns true or the time is over. It learns from
  /// success. After false, the caller sleeps and reports the whole wait by
  /// learned().
  template <class Found>
  bool wait_for(clock::time_point began, const Found& found);

private:
  /// Gives the shortest time. It costs less than finding out again that
  /// busy-polling pays.
  static constexpr nanoseconds shortest{1'000};
  /// A thread that waited for this long is at rest.
  static constexpr nanoseconds rest{10'000'000};
  /// One round takes about a microsecond, and a few more where a kernel thread
  /// briefly has the processor. After a round as long as this, it asks the
  /// kernel whether the thread was preempted.
  static constexpr nanoseconds long_round{50'000};
  static constexpr nanoseconds contested_for{5'000'000};

  /// Returns whether another thread got this thread's processor since the last
  /// call on this thread. It does not notice when the host of a virtual machine
  /// takes the processor.
  static bool was_preempted() noexcept;

  busy_poll_limits limits_;
  std::atomic<nanoseconds::rep> time_;
  /// Counts from the clock's epoch.
  std::atomic<nanoseconds::rep> contested_until_{0};
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
bool busy_poll::wait_for(clock::time_point began, const Found& found) {
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

/// Describes a process's choice of limits.
struct busy_poll_choice {
  /// Holds the longest time, or nothing where no processor is to spare.
  std::optional<std::chrono::nanoseconds> longest;

  /// Returns the limits of a thread that may busy-poll for `scarce` even where
  /// no processor is to spare.
  busy_poll_limits limits(std::chrono::nanoseconds scarce) const noexcept {
    auto most = longest.value_or(scarce);
    return {most, std::min(most, scarce)};
  }
};

/// Returns the choice for a host with so many processors. `asked` is the value
/// of VGPU_BUSY_POLL, or null. Fails where it is not a number of microseconds
/// from 0 to 1000.
result<busy_poll_choice> choose_busy_poll(const char* asked,
                                          unsigned processors);
/// Returns the choice for this process, from its environment and the processors
/// that it may use.
result<busy_poll_choice> chosen_busy_poll();

} // namespace vgpu
