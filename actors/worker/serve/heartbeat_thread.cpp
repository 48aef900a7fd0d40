#include "actors/worker/serve/heartbeat_thread.hpp"

namespace vgpu {

heartbeat_thread::heartbeat_thread(std::chrono::milliseconds every,
                                   look look_after)
    : every_(every), look_(std::move(look_after)), thread_([this] { run(); }) {}

heartbeat_thread::~heartbeat_thread() {
  {
    std::lock_guard guard{lock_};
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void heartbeat_thread::leave() noexcept {
  leaves_.fetch_add(1);
  state_.store(away);
  if (!asleep_.load())
    return;
  {
    std::lock_guard guard{lock_};
    asleep_.store(false);
  }
  changed_.notify_all();
}

void heartbeat_thread::back() noexcept {
  std::uint32_t expected = away;
  while (!state_.compare_exchange_strong(expected, here)) {
    state_.wait(looking);
    expected = away;
  }
}

void heartbeat_thread::run() {
  std::unique_lock guard{lock_};
  auto seen = leaves_.load();
  auto away_for = std::chrono::milliseconds{0};
  for (;;) {
    if (changed_.wait_for(guard, every_, [this] { return ended_; }))
      return;
    auto now = leaves_.load();
    if (now == seen && state_.load() == here) {
      if (!sleep_until_left(guard))
        return;
      seen = leaves_.load();
      away_for = {};
      continue;
    }
    away_for = now == seen ? away_for + every_ : std::chrono::milliseconds{0};
    seen = now;
    guard.unlock();
    look_once(away_for);
    guard.lock();
  }
}

void heartbeat_thread::look_once(std::chrono::milliseconds away_for) {
  std::uint32_t expected = away;
  if (!state_.compare_exchange_strong(expected, looking))
    return;
  look_(away_for);
  state_.store(away);
  state_.notify_one();
}

/// False when it is over.
bool heartbeat_thread::sleep_until_left(std::unique_lock<std::mutex>& guard) {
  asleep_.store(true);
  // Whoever left before this line did not see that it must wake us.
  if (state_.load() != here)
    asleep_.store(false);
  changed_.wait(guard, [this] { return ended_ || !asleep_.load(); });
  return !ended_;
}

} // namespace vgpu
