// Optional interface of a device: metering of its own working time.
#pragma once

#include <chrono>

namespace vgpu::device {

/// A device that measures how long it works implements this interface. For
/// other devices the worker counts the time from the beginning of work to its
/// end.
class meter {
public:
  virtual ~meter() = default;

  /// Returns the total time for which the device had work of this session.
  /// Thread-safe.
  virtual std::chrono::nanoseconds busy() const = 0;

  /// Returns the total work that the device did for this session, as time of
  /// the whole device: half of the device for one second counts as half a
  /// second. Shares and limits apply to this time. Thread-safe.
  virtual std::chrono::nanoseconds worked() const { return busy(); }
};

} // namespace vgpu::device
