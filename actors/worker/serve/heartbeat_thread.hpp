// A thread that sends signs of life for another one during a long call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace vgpu {

/// Calls `beat` on a thread of its own during a long call of its owner. The
/// owner calls begin() before a call that may take long, and end() after it. In
/// between, the thread calls `beat` every `every`. While `beat` runs, it alone
/// uses the owner's data. end() waits for it, and each side sees what the other
/// wrote.
///
/// One thread calls begin() and end(). They cost an atomic operation each, and
/// a wake-up at most once in `every`. The thread sleeps while the owner makes
/// no such calls. `beat` must not throw.
class heartbeat_thread {
public:
  /// Sends a sign of life. `took` is how long the call has taken so far, with a
  /// precision of `every`.
  using beat = std::function<void(std::chrono::milliseconds took)>;

  heartbeat_thread(std::chrono::milliseconds every, beat what);
  ~heartbeat_thread();
  heartbeat_thread(const heartbeat_thread&) = delete;
  heartbeat_thread& operator=(const heartbeat_thread&) = delete;

  void begin() noexcept;
  void end() noexcept;

private:
  /// Says where the owner is: outside of such a call, in one, or in one while
  /// the thread beats.
  enum : std::uint32_t { outside, inside, beating };

  void run();
  void beat_once(std::chrono::milliseconds took);
  bool sleep_until_begun(std::unique_lock<std::mutex>& guard);

  const std::chrono::milliseconds every_;
  const beat beat_;
  std::atomic<std::uint32_t> state_ = outside;
  std::atomic<std::uint64_t> begun_ = 0;
  std::atomic<bool> asleep_ = false;
  std::mutex lock_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_; // last, because it uses the other members
};

/// Covers one call of the owner.
class heartbeat_cover {
public:
  explicit heartbeat_cover(heartbeat_thread& by) noexcept : by_(by) {
    by_.begin();
  }
  ~heartbeat_cover() { by_.end(); }
  heartbeat_cover(const heartbeat_cover&) = delete;
  heartbeat_cover& operator=(const heartbeat_cover&) = delete;

private:
  heartbeat_thread& by_;
};

} // namespace vgpu
