// Calls from stream/ to stream capture, which is in graph/, a folder above it
// (graph/capture.hpp).
#pragma once

#include <cuda.h>

#include <atomic>

namespace vgpu::interposer {

struct stream;
struct event;

/// Counts the sequences under capture in this process.
inline std::atomic<unsigned> captures_under_way{0};

/// Tells whether any stream of the process is captured. It costs one load, and
/// each call that capture may concern begins with it.
inline bool any_capture() noexcept {
  return captures_under_way.load(std::memory_order_relaxed) != 0;
}

/// Holds the functions of capture for streams and events. graph/ registers
/// them, and stream/ calls them only while any_capture().
struct capture_hooks {
  /// Removes a stream that is about to be destroyed from its capture.
  void (*forget_stream)(stream& x) = nullptr;
  /// Removes an event that is about to be destroyed from its capture.
  void (*forget_event)(event& x) = nullptr;
  /// Breaks the capture of a stream because of a call that capture forbids, and
  /// returns the error of such a call.
  CUresult (*refuse_stream)(stream& x) = nullptr;
  /// Breaks the capture in which the event was recorded, and returns the error
  /// of the call that caused it.
  CUresult (*refuse_event)(event& x) = nullptr;
};

} // namespace vgpu::interposer
