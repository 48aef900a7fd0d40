// Signals ZeroMQ's threads in memory while they are awake.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <sys/epoll.h>

namespace vgpu {

/// ZeroMQ writes to an eventfd when it hands a message to one of its threads,
/// or when one of them hands a message to the socket's owner. The receiver
/// polls and reads it. These are three system calls, four times for a message
/// and its answer, even where both threads are awake. While a zmq_busy_poll
/// exists, the count of such a descriptor is kept in memory instead, and the
/// kernel's count only wakes a thread that sleeps on it.
///
/// As with zmq_busy_poll, the executable defines functions of the C library
/// that ZeroMQ calls (eventfd, write, read, poll, epoll_ctl, close). They treat
/// all other descriptors as usual. The caller of eventfd() tells whether ZeroMQ
/// makes the descriptor.
///
/// A thread may sleep on such a descriptor only by poll() or by ZeroMQ's
/// epoll_wait() in this process. Under sanitizers there are no such
/// descriptors.
class zmq_signal {
public:
  /// Returns the signal of this descriptor, or null if it is not one of
  /// ZeroMQ's. Thread-safe.
  static zmq_signal* of(int fd) noexcept;
  /// Returns the first signal that this epoll descriptor watches; next() gives
  /// the others. Only the one thread that waits on it may call this.
  static zmq_signal* watched_by(int epoll) noexcept;
  zmq_signal* next() const noexcept { return next_; }

  /// Sets whether the descriptors that ZeroMQ makes from now on are signalled
  /// in memory.
  static void keep(bool in_memory) noexcept;

  /// Returns whether the signal is raised.
  bool raised() const noexcept {
    return count_.load(std::memory_order_acquire) != 0;
  }

  /// Does what write() does to an eventfd.
  void raise(std::uint64_t by) noexcept;
  /// Does what read() does to a non-blocking eventfd. Returns 0 if there is
  /// nothing.
  std::uint64_t take() noexcept;

  /// Sleeps in the kernel by `wait` on signals, among others: `each` must call
  /// its argument with each of them. Meanwhile raise() also signals the kernel.
  /// `wait` gets whether one is raised already, in which case it must not
  /// sleep.
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
  /// Resets the kernel's count of a signal that was taken already.
  void silence() noexcept;

  /// Returns the event that epoll_wait() reports for it.
  epoll_event event() const noexcept { return {EPOLLIN, data_}; }
  /// Returns whether epoll_wait() reports this signal by `x`.
  bool is(const epoll_event& x) const noexcept {
    return x.data.u64 == data_.u64;
  }

private:
  friend struct zmq_calls;

  alignas(64) std::atomic<std::uint64_t> count_ = 0;
  std::atomic<unsigned> sleepers_ = 0;
  std::atomic<bool> uses_kernel_ = false;
  std::atomic<bool> known_ = false;
  int fd_ = -1;
  epoll_data_t data_{};
  zmq_signal* next_ = nullptr;
};

} // namespace vgpu
