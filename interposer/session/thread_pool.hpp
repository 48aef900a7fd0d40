// Several threads for a piece of work that one would take long for.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

namespace vgpu::interposer {

/// Threads that help a caller: at most as many as the process has processors
/// to itself, the caller's counted. They are started when they are needed
/// first, and never end: who owns the pool must not destroy it then.
/// Thread-safe.
class thread_pool {
public:
  /// Calls `job(part)` for each part from 0 to `parts`, on several threads at
  /// once, and returns when all are done. While the pool helps somebody else,
  /// the caller does all parts by itself. `job` must not throw.
  void run(std::size_t parts, const std::function<void(std::size_t)>& job);

private:
  void start(std::size_t parts);
  void serve();
  /// Takes parts until there is none left.
  void run_parts(std::unique_lock<std::mutex>& guard);

  std::mutex busy_;
  std::size_t helpers_ = 0;
  bool started_ = false;

  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t parts_ = 0;
  std::size_t next_ = 0;
  std::size_t left_ = 0;
};

} // namespace vgpu::interposer
