// Streams that wait for a value in memory: what a device can do besides
// device.hpp.
#pragma once

#include "schema/base/awaited_value.hpp"
#include "schema/base/fault.hpp"

namespace vgpu::device {

/// A device whose streams can wait for values is one of these too. Called as
/// the device is: by one thread.
class value_unit {
public:
  virtual ~value_unit() = default;

  /// What is enqueued in the stream from now on waits until the word holds what
  /// it must (CUDA driver API, cuStreamWaitValue32). Whoever writes it: another
  /// stream's copy, a kernel that runs. No other stream waits, and nothing of
  /// this process does. Precondition: what.is_sound().
  virtual status enqueue_wait(stream_id stream, const awaited_value& what) = 0;
};

} // namespace vgpu::device
