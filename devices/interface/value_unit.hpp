// Optional interface of a device: streams that wait for a value in memory.
#pragma once

#include "schema/base/awaited_value.hpp"
#include "schema/base/fault.hpp"

namespace vgpu::device {

/// A device whose streams can wait for values implements this interface. As
/// with `device`, one thread calls it.
class value_unit {
public:
  virtual ~value_unit() = default;

  /// Lets work that is enqueued in the stream from now on wait until the word
  /// in memory satisfies the condition `what` (CUDA driver API,
  /// cuStreamWaitValue32). Another stream's copy or a running kernel may write
  /// the word. No other stream and no thread of this process waits.
  /// Precondition: what.is_sound().
  virtual status enqueue_wait(stream_id stream, const awaited_value& what) = 0;
};

} // namespace vgpu::device
