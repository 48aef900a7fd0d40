// Calls from streams and events to stream capture, which lies above them
// (graph/capture.hpp).
#pragma once

#include <cuda.h>

#include <atomic>

namespace vgpu::interposer {

struct stream;
struct event;

/// This counts the sequences under capture in this process.
inline std::atomic<unsigned> captures_under_way{0};

/// Tells whether any stream of the process is captured. It costs one load, and
/// each call that capture may concern begins with it.
inline bool any_capture() noexcept {
  return captures_under_way.load(std::memory_order_relaxed) != 0;
}

/// Capture does this for streams and events. graph/ registers these functions,
/// and stream/ calls them only while any_capture().
struct capture_hooks {
  /// Removes a stream that is about to be destroyed from its capture.
  void (*forget_stream)(stream& x) = nullptr;
  /// Removes an event that is about to be destroyed from its capture.
  void (*forget_event)(event& x) = nullptr;
  /// Breaks the capture of a stream, as something was done to it that capture
  /// forbids, and gives the code for that.
  CUresult (*refuse_stream)(stream& x) = nullptr;
  /// Breaks the capture in which the event was recorded, and gives the code for
  /// that.
  CUresult (*refuse_event)(event& x) = nullptr;
};

} // namespace vgpu::interposer
