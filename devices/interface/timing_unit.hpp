// Optional interface of a device: timing of work by the device's own clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace vgpu::device {

/// Copies and memsets of at least this many bytes take long enough to be timed
/// one by one: the two records of an event cost little in comparison.
inline constexpr std::uint64_t long_copy = std::uint64_t{64} << 10;

/// Names the purpose of a timing. The device keeps a separate total for each.
enum class timed_for : std::uint8_t { nobody, turns, account };

/// A device that times its work by its own clock implements this interface. For
/// other devices the worker uses the host's clock, which also counts the time
/// until the work reaches the device's queue and until the host notices its
/// end; for a short copy that is most of the time. Timing costs nothing until
/// time() asks for it.
class timing_unit {
public:
  virtual ~timing_unit() = default;

  /// Selects for whom the device times the work enqueued from now on. The
  /// thread that enqueues calls it.
  virtual void time(timed_for whom) noexcept = 0;

  /// Delays the start of the next timed work, so that more work is queued after
  /// it. The device then runs all of it without a break, and the measured time
  /// has no pauses in which the device waits for the host. The thread that
  /// enqueues calls it.
  virtual void delay() noexcept = 0;

  /// Adds the work that is done by now to the totals, including the work whose
  /// completion calls this. Only completions call it.
  virtual void settle_times() = 0;

  /// Returns the total time for which the device did the work that it timed for
  /// `whom`, as of the latest settle_times(). Overlapping work counts once.
  /// Work whose end no caller asked for counts together with the next work of
  /// its stream, from the beginning of the first to the end of the last.
  /// Thread-safe.
  virtual std::chrono::nanoseconds timed(timed_for whom) const noexcept = 0;
};

} // namespace vgpu::device
