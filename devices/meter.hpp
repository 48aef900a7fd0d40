// A device that knows how long it worked.
#pragma once

#include <chrono>

namespace vgpu::device {

/// What a device may also be. Without it, who charges for a session's work goes
/// by the time from the work's beginning to its end.
class meter {
public:
  virtual ~meter() = default;

  /// How long the device worked for this session in all. Thread-safe.
  virtual std::chrono::nanoseconds busy() const = 0;
};

} // namespace vgpu::device
