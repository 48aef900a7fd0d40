// Work that waits for what no task's end tells: a value in memory.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vgpu::device::cpu {

/// Looks again and again whether something is so, on a thread of its own that
/// sleeps while there is nothing to look for: soon at first, later once in a
/// millisecond. Thread-safe.
class value_watch {
public:
  value_watch() = default;
  value_watch(const value_watch&) = delete;
  value_watch& operator=(const value_watch&) = delete;
  ~value_watch() { stop(); }

  /// Calls `then`, once, when `so` says true. Neither may block.
  void add(std::function<bool()> so, std::function<void()> then);
  /// Looks no more.
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
