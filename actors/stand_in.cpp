#include "actors/stand_in.hpp"

namespace vgpu {

stand_in::stand_in(std::chrono::milliseconds every, look look_after)
    : every_(every), look_(std::move(look_after)), thread_([this] { run(); }) {}

stand_in::~stand_in() {
  {
    std::lock_guard guard{lock_};
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void stand_in::leave() noexcept {
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

void stand_in::back() noexcept {
  std::uint32_t expected = away;
  while (!state_.compare_exchange_strong(expected, here)) {
    state_.wait(looking);
    expected = away;
  }
}

void stand_in::run() {
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

void stand_in::look_once(std::chrono::milliseconds away_for) {
  std::uint32_t expected = away;
  if (!state_.compare_exchange_strong(expected, looking))
    return;
  look_(away_for);
  state_.store(away);
  state_.notify_one();
}

/// False when it is over.
bool stand_in::sleep_until_left(std::unique_lock<std::mutex>& guard) {
  asleep_.store(true);
  // Whoever left before this line did not see that it must wake us.
  if (state_.load() != here)
    asleep_.store(false);
  changed_.wait(guard, [this] { return ended_ || !asleep_.load(); });
  return !ended_;
}

} // namespace vgpu
