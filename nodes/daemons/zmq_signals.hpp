// ZeroMQ's threads are told of messages in memory, while they are awake.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <sys/epoll.h>

namespace vgpu {

/// Where ZeroMQ hands a message to one of its threads, or a thread of its own
/// to who has the socket, it writes to an eventfd, which the other polls and
/// reads: three system calls, four times for a message and its answer, also
/// where both are awake. While a zmq_busy_poll lives, the count of such a
/// descriptor is kept in memory instead, and the kernel's is what wakes who
/// sleeps on it.
///
/// As with zmq_busy_poll, functions of the C library that ZeroMQ calls
/// (eventfd, write, read, poll, epoll_ctl, close) are defined in the
/// executable, and do with all other descriptors what they always do. What
/// ZeroMQ makes is told by who calls eventfd.
///
/// Whoever sleeps on such a descriptor must do it by poll() or by ZeroMQ's
/// epoll_wait() in this process. Under sanitizers there are none of these.
class zmq_signal {
public:
  /// Of this descriptor; null if it is not one of ZeroMQ's. Thread-safe.
  static zmq_signal* of(int fd) noexcept;
  /// The first of those that this epoll descriptor watches, and the next. For
  /// the one thread that waits for it.
  static zmq_signal* watched_by(int epoll) noexcept;
  zmq_signal* next() const noexcept { return next_; }

  /// From now on the descriptors that ZeroMQ makes are told of in memory, or
  /// not any more.
  static void keep(bool in_memory) noexcept;

  bool raised() const noexcept {
    return count_.load(std::memory_order_acquire) != 0;
  }

  /// As write() of an eventfd.
  void raise(std::uint64_t by) noexcept;
  /// As read() of an eventfd that does not block: 0 if there is nothing.
  std::uint64_t take() noexcept;

  /// Sleeps in the kernel, by `wait`, on the signals that `each` calls its
  /// argument with, among others: while it does, raise() tells the kernel, too.
  /// `wait` is told whether one is raised already, so that it must not sleep.
  template <class Each, class Wait>
  static int sleep(const Each& each, const Wait& wait) {
    auto raised = false;
    each([&](zmq_signal& x) {
      x.sleepers_ += 1;
      raised = x.count_.load() != 0 || raised;
    });
    auto out = wait(raised);
    auto error = errno;
    each([](zmq_signal& x) { x.sleepers_ -= 1; });
    errno = error;
    return out;
  }
  /// The kernel told of what somebody has taken already: no more.
  void silence() noexcept;

  /// What epoll_wait() tells of it.
  epoll_event event() const noexcept { return {EPOLLIN, data_}; }
  bool is(const epoll_event& x) const noexcept {
    return x.data.u64 == data_.u64;
  }

private:
  friend struct zmq_calls;

  alignas(64) std::atomic<std::uint64_t> count_ = 0;
  std::atomic<unsigned> sleepers_ = 0;
  std::atomic<bool> told_kernel_ = false;
  std::atomic<bool> known_ = false;
  int fd_ = -1;
  epoll_data_t data_{};
  zmq_signal* next_ = nullptr;
};

} // namespace vgpu
