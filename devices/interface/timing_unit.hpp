// A device that tells by a clock of its own how long it worked: what a device
// can do besides device.hpp.
#pragma once

#include <chrono>
#include <cstdint>

namespace vgpu::device {

/// Copies and memsets of so many bytes take a device long enough to be timed
/// each by itself: two records of an event, some tenths of a microsecond, are
/// little beside that.
inline constexpr std::uint64_t long_copy = std::uint64_t{64} << 10;

/// Who wants to know how long work takes. Each is told of its own.
enum class timed_for : std::uint8_t { nobody, turns, account };

/// Without it, whoever counts goes by the host's clock, which also counts what
/// the host does before work is in the device's queue, and until somebody
/// notices its end: of short copies that is most of it. Nothing is timed, and
/// nothing is any slower, until it is asked for.
class timing_unit {
public:
  virtual ~timing_unit() = default;

  /// For whom work is timed that is enqueued from now on. Of the thread that
  /// enqueues.
  virtual void time(timed_for whom) noexcept = 0;

  /// What is timed next begins some time after it came. By then there is more
  /// of it, and the device goes from one piece to the next: what is told of it
  /// is what the device works, without pauses in which it would wait for the
  /// host. Of the thread that enqueues.
  virtual void delay() noexcept = 0;

  /// Takes down what was done until now. Called by a completion, what that one
  /// tells of is part of it. From completions alone.
  virtual void settle_times() = 0;

  /// For how long the device worked on what was timed for them, as far as that
  /// was taken down, ever. What overlaps counts once; work of one stream whose
  /// end nobody asked for in between counts from its beginning to its end.
  /// Thread-safe.
  virtual std::chrono::nanoseconds timed(timed_for whom) const noexcept = 0;
};

} // namespace vgpu::device
