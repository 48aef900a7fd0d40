// How long a device's threads had something to do.
#pragma once

#include <chrono>
#include <mutex>

namespace vgpu::device::cpu {

/// The time in which at least one thread was between enter() and leave(), the
/// present included. Thread-safe.
class busy_time {
public:
  void enter() {
    std::lock_guard guard{mutex_};
    if (threads_++ == 0)
      since_ = clock::now();
  }
  void leave() {
    std::lock_guard guard{mutex_};
    if (--threads_ == 0)
      total_ += clock::now() - since_;
  }
  std::chrono::nanoseconds total() const {
    std::lock_guard guard{mutex_};
    return threads_ == 0 ? total_ : total_ + (clock::now() - since_);
  }

private:
  using clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  unsigned threads_ = 0;
  clock::time_point since_;
  clock::duration total_{0};
};

} // namespace vgpu::device::cpu
