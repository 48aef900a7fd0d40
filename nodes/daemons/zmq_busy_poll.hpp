// Makes ZeroMQ's own threads busy-poll before they sleep.
#pragma once

#include "schema/base/busy_poll.hpp"

#include <cstdint>

namespace vgpu {

/// While it exists, the ZeroMQ I/O threads of this process busy-poll for
/// messages, each for as long as that paid recently. Only one may exist at a
/// time, and it must outlive each zmq::context_t.
///
/// Each message wakes an I/O thread on both sides, and ZeroMQ has no option to
/// make these busy-poll. But they sleep in the C library's epoll_wait, which
/// the dynamic linker looks for in the executable first, and zmq_busy_poll.cpp
/// defines one. So this class is for our programs and for no library, least of
/// all one that is loaded into other people's programs. Other threads, and all
/// threads without a zmq_busy_poll, sleep as usual.
///
/// Under sanitizers, which have an epoll_wait of their own, it does nothing.
class zmq_busy_poll {
public:
  explicit zmq_busy_poll(busy_poll_limits limits);
  ~zmq_busy_poll();
  zmq_busy_poll(const zmq_busy_poll&) = delete;
  zmq_busy_poll& operator=(const zmq_busy_poll&) = delete;

  /// Returns how often an I/O thread waited. Thread-safe.
  std::uint64_t waited() const noexcept { return waited_.load(); }
  /// Returns in how many of these waits it busy-polled first. Thread-safe.
  std::uint64_t busy_polled() const noexcept { return busy_polled_.load(); }
  /// Returns how often busy-polling found something. Thread-safe.
  std::uint64_t found() const noexcept { return found_.load(); }

  /// Returns whether this build supports it.
  static bool possible() noexcept;

private:
  friend struct zmq_waiting;

  busy_poll_limits limits_;
  std::atomic<std::uint64_t> waited_ = 0;
  std::atomic<std::uint64_t> busy_polled_ = 0;
  std::atomic<std::uint64_t> found_ = 0;
};

} // namespace vgpu
