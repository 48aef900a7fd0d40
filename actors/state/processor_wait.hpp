// How long a thread has waited for a processor.
#pragma once

#include "schema/log/session_area.hpp"

#include <chrono>

namespace vgpu {

/// Reads how long the thread that makes it has been ready to run without
/// running, as the kernel counts it (Linux, Documentation/scheduler/
/// sched-stats.rst). Use it on that thread.
class processor_wait {
public:
  processor_wait();

  /// Returns the time since the thread began; zero where the kernel does not
  /// count it.
  std::chrono::nanoseconds total() const noexcept;

private:
  unique_fd counts_;
};

} // namespace vgpu
