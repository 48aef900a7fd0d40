// Waiting for the end of a process: a signal, or word from an actor.
#pragma once

#include "actors/link/doorbell.hpp"

#include <atomic>
#include <chrono>
#include <string>

namespace vgpu {

/// Blocks SIGTERM, SIGINT and SIGHUP for all threads that start after it, and
/// ignores SIGPIPE. Make one first in main.
class stop_signal {
public:
  stop_signal();
  ~stop_signal();
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;

  /// From any thread: ends wait() with this exit status.
  void stop(int status) noexcept;

  /// Sleeps until a signal came (0) or stop() was called.
  int wait();
  /// The same, but for stop() alone and at most so long.
  void await_stop(std::chrono::milliseconds at_most);

private:
  int signals_;
  doorbell bell_;
  std::atomic<int> status_{0};
};

} // namespace vgpu
