// A device that knows how long it worked.
#pragma once

#include <chrono>

namespace vgpu::device {

/// What a device may also be. Without it, whoever counts goes by the time from
/// the work's beginning to its end.
class meter {
public:
  virtual ~meter() = default;

  /// For how long the device had something to do for this session, in all.
  /// Thread-safe.
  virtual std::chrono::nanoseconds busy() const = 0;

  /// Of all that the device could do, what it did for this session, as time of
  /// the whole device: half of it for a second is half a second. That is what
  /// shares and limits are of. Thread-safe.
  virtual std::chrono::nanoseconds worked() const { return busy(); }
};

} // namespace vgpu::device
