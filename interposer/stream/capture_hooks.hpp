// What streams and events have to do with stream capture, which lies above them
// (graph/capture.hpp).
#pragma once

#include <cuda.h>

#include <atomic>

namespace vgpu::interposer {

struct stream;
struct event;

/// Sequences under capture in this process.
inline std::atomic<unsigned> captures_under_way{0};

/// Whether any stream of the process is captured. A load, which each call that
/// capture may concern begins with.
inline bool any_capture() noexcept {
  return captures_under_way.load(std::memory_order_relaxed) != 0;
}

/// What capture does for streams and events. Registered by graph/, and called
/// only while any_capture().
struct capture_hooks {
  /// Takes what is about to be destroyed out of the capture that it is part of.
  void (*forget_stream)(stream& x) = nullptr;
  void (*forget_event)(event& x) = nullptr;
  /// Breaks the capture of a stream that something was done to which may not
  /// happen under capture. The code says so.
  CUresult (*refuse_stream)(stream& x) = nullptr;
  /// Breaks the capture in which the event was recorded. The code says so.
  CUresult (*refuse_event)(event& x) = nullptr;
};

} // namespace vgpu::interposer
