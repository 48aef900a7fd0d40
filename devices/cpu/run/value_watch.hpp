// Waits for values in memory, whose changes are not signalled.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vgpu::device::cpu {

/// Checks conditions repeatedly, on a thread of its own that sleeps while there
/// is none to check: soon at first, and later once in a millisecond.
/// Thread-safe.
class value_watch {
public:
  value_watch() = default;
  value_watch(const value_watch&) = delete;
  value_watch& operator=(const value_watch&) = delete;
  ~value_watch() { stop(); }

  /// Calls `then`, once, when `so` returns true. Neither may block.
  void add(std::function<bool()> so, std::function<void()> then);
  /// Stops checking.
  void stop();

private:
  struct entry {
    std::function<bool()> so;
    std::function<void()> then;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<entry> added_;
  bool stopping_ = false;
  std::thread thread_; // begins with the first entry
};

} // namespace vgpu::device::cpu
