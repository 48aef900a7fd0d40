// Waiting for a process's end: by a signal, or by a call of stop().
#pragma once

#include "actors/link/doorbell.hpp"

#include <atomic>
#include <chrono>
#include <string>

namespace vgpu {

/// Blocks SIGTERM, SIGINT and SIGHUP for all threads that start after it, and
/// ignores SIGPIPE and SIGXFSZ. Make one first in main.
class stop_signal {
public:
  stop_signal();
  ~stop_signal();
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;

  /// Ends wait() with this exit status. Thread-safe.
  void stop(int status) noexcept;

  /// Sleeps until a signal arrives (returns 0) or stop() is called.
  int wait();
  /// Sleeps until stop() is called, or for `at_most`.
  void await_stop(std::chrono::milliseconds at_most);

private:
  int signals_;
  doorbell bell_;
  std::atomic<int> status_{0};
};

} // namespace vgpu
