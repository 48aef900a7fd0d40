// Somebody who looks after a thread's business while that thread is in a call
// that may take long.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace vgpu {

/// The owner says leave() before a call that may take long and back() after
/// it; in between, every `every`, `look` is called on another thread. What the
/// owner touches outside of such calls is `look`'s while it runs, and only
/// then: back() waits for it, and whatever either wrote the other sees.
///
/// leave() and back() are called by one thread, cost an atomic operation each
/// and a wake-up at most once in `every`; the thread sleeps while the owner
/// makes no such calls. `look` must not throw.
class heartbeat_thread {
public:
  /// `away` is how long the call that is under way has taken so far, to
  /// `every`.
  using look = std::function<void(std::chrono::milliseconds away)>;

  heartbeat_thread(std::chrono::milliseconds every, look look_after);
  ~heartbeat_thread();
  heartbeat_thread(const heartbeat_thread&) = delete;
  heartbeat_thread& operator=(const heartbeat_thread&) = delete;

  void leave() noexcept;
  void back() noexcept;

private:
  enum : std::uint32_t { here, away, looking };

  void run();
  void look_once(std::chrono::milliseconds away_for);
  bool sleep_until_left(std::unique_lock<std::mutex>& guard);

  const std::chrono::milliseconds every_;
  const look look_;
  std::atomic<std::uint32_t> state_ = here;
  std::atomic<std::uint64_t> leaves_ = 0;
  std::atomic<bool> asleep_ = false;
  std::mutex lock_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_; // last: it uses the rest
};

} // namespace vgpu
