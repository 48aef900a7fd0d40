#include "actors/worker/serve/heartbeat_thread.hpp"

namespace vgpu {

heartbeat_thread::heartbeat_thread(std::chrono::milliseconds every, beat what)
    : every_(every), beat_(std::move(what)), thread_([this] { run(); }) {}

heartbeat_thread::~heartbeat_thread() {
  {
    std::lock_guard guard{lock_};
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void heartbeat_thread::begin() noexcept {
  begun_.fetch_add(1);
  state_.store(inside);
  if (!asleep_.load())
    return;
  {
    std::lock_guard guard{lock_};
    asleep_.store(false);
  }
  changed_.notify_all();
}

void heartbeat_thread::end() noexcept {
  std::uint32_t expected = inside;
  while (!state_.compare_exchange_strong(expected, outside)) {
    state_.wait(beating);
    expected = inside;
  }
}

void heartbeat_thread::run() {
  std::unique_lock guard{lock_};
  auto seen = begun_.load();
  auto took = std::chrono::milliseconds{0};
  for (;;) {
    if (changed_.wait_for(guard, every_, [this] { return ended_; }))
      return;
    auto now = begun_.load();
    if (now == seen && state_.load() == outside) {
      if (!sleep_until_begun(guard))
        return;
      seen = begun_.load();
      took = {};
      continue;
    }
    took = now == seen ? took + every_ : std::chrono::milliseconds{0};
    seen = now;
    guard.unlock();
    beat_once(took);
    guard.lock();
  }
}

void heartbeat_thread::beat_once(std::chrono::milliseconds took) {
  std::uint32_t expected = inside;
  if (!state_.compare_exchange_strong(expected, beating))
    return;
  beat_(took);
  state_.store(inside);
  state_.notify_one();
}

/// Returns false when the owner is gone.
bool heartbeat_thread::sleep_until_begun(std::unique_lock<std::mutex>& guard) {
  asleep_.store(true);
  // An owner that began before this line did not see that it must wake us.
  if (state_.load() != outside)
    asleep_.store(false);
  changed_.wait(guard, [this] { return ended_ || !asleep_.load(); });
  return !ended_;
}

} // namespace vgpu
