// Several threads that share one piece of work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

namespace vgpu::interposer {

/// Lets several threads help a caller. With the caller's own they are at most
/// as many as the processors that the process may use. The first use starts the
/// threads, and they never end, so a used pool must not be destroyed.
/// Thread-safe.
class thread_pool {
public:
  /// Calls `job(part)` for each part in [0, parts) on several threads, and
  /// returns when all are done. While the pool helps another caller, the
  /// calling thread does all parts itself. `job` must not throw.
  void run(std::size_t parts, const std::function<void(std::size_t)>& job);

private:
  void start(std::size_t parts);
  void serve();
  /// Takes parts until none is left. Precondition: the guard holds the mutex.
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
