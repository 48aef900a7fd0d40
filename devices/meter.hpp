// A device that knows how long it worked.
#pragma once

#include <chrono>

namespace vgpu::device {

/// What a device did for a session, in all.
struct effort {
  /// For so long it had something to do for it.
  std::chrono::nanoseconds busy{0};
  /// Of all that the device can do, what it did for it, and what it would have
  /// done with nobody in the way, as time of the whole device: half of it for a
  /// second is half a second. Negative: it cannot tell.
  std::chrono::nanoseconds worked{-1};
  std::chrono::nanoseconds wanted{-1};
};

/// What a device may also be. Without it, who charges for a session's work goes
/// by the time from the work's beginning to its end.
class meter {
public:
  virtual ~meter() = default;

  /// How long the device worked for this session in all. Thread-safe.
  virtual std::chrono::nanoseconds busy() const = 0;

  /// Thread-safe.
  virtual effort efforts() const { return {.busy = busy()}; }
};

} // namespace vgpu::device
