#include "actors/compute/shared_lock.hpp"

#include "schema/log/session_area.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace vgpu {

namespace {

constexpr std::uint32_t others_wait = 1u << 31;

/// Counts the forks from which this process came, because a child's thread has
/// another number than its parent's.
std::atomic<unsigned> forks{0};

/// Returns this thread's number in its PID namespace. All processes at one
/// memory are children of one node.
std::uint32_t own_number() noexcept {
  static const auto told = ::pthread_atfork(
      nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)told;
  thread_local struct {
    unsigned after = 0;
    std::uint32_t number = 0;
  } known;
  auto now = forks.load(std::memory_order_relaxed);
  if (known.number == 0 || known.after != now)
    known = {now, static_cast<std::uint32_t>(::gettid())};
  return known.number;
}

bool is_dead(std::uint32_t thread) noexcept {
  auto number = static_cast<pid_t>(thread & ~others_wait);
  return number <= 0 || (::kill(number, 0) != 0 && errno == ESRCH);
}

} // namespace

void shared_lock::lock() noexcept {
  auto self = own_number();
  std::uint32_t seen = 0;
  if (holder_.compare_exchange_strong(seen, self, std::memory_order_acquire))
    return;
  std::chrono::steady_clock::time_point held_since{};
  for (;;) {
    // Others may wait as well, so this thread's unlock() wakes one.
    seen = 0;
    if (holder_.compare_exchange_strong(seen, self | others_wait,
                                        std::memory_order_acquire))
      return;
    if ((seen & others_wait) == 0 &&
        !holder_.compare_exchange_strong(seen, seen | others_wait))
      continue;
    if (wait(seen | others_wait, self, held_since))
      return;
  }
}

bool shared_lock::wait(
    std::uint32_t seen, std::uint32_t self,
    std::chrono::steady_clock::time_point& held_since) noexcept {
  auto now = std::chrono::steady_clock::now();
  if (held_since == std::chrono::steady_clock::time_point{})
    held_since = now;
  sleep_while(holder_, seen, looks_after);
  if (holder_.load() != seen) {
    held_since = {};
    return false;
  }
  if (!is_dead(seen) && std::chrono::steady_clock::now() - held_since < longest)
    return false;
  return holder_.compare_exchange_strong(seen, self | others_wait,
                                         std::memory_order_acquire);
}

void shared_lock::unlock() noexcept {
  // Another thread may have taken the lock over meanwhile.
  auto self = own_number();
  auto seen = self;
  if (holder_.compare_exchange_strong(seen, 0, std::memory_order_release))
    return;
  if (seen == (self | others_wait) &&
      holder_.compare_exchange_strong(seen, 0, std::memory_order_release))
    wake_some(holder_, 1);
}

} // namespace vgpu
