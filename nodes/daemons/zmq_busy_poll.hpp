// ZeroMQ's own threads look on for a moment before they sleep.
#pragma once

#include "schema/base/busy_poll.hpp"

#include <cstdint>

namespace vgpu {

/// While it lives, ZeroMQ's I/O threads of this process look for messages, each
/// for as long as lately paid it. One at a time; outlives each zmq::context_t.
///
/// A message that ZeroMQ carries wakes a thread of its own on each side, and
/// ZeroMQ has no option for these to look on. But it sleeps in the C library's
/// epoll_wait, which the dynamic linker finds by name, in the executable first:
/// zmq_busy_poll.cpp defines one. That is why it belongs to programs and to no
/// library, least of all to one that lives in other people's programs. Other
/// threads, and all where nobody made a zmq_busy_poll, sleep as they always do.
///
/// Under sanitizers, which have an epoll_wait of their own, it does nothing.
class zmq_busy_poll {
public:
  explicit zmq_busy_poll(busy_poll_limits limits);
  ~zmq_busy_poll();
  zmq_busy_poll(const zmq_busy_poll&) = delete;
  zmq_busy_poll& operator=(const zmq_busy_poll&) = delete;

  /// How many times such a thread waited, how many of these it looked on at
  /// first, and how many of those that was enough. Thread-safe.
  std::uint64_t waited() const noexcept { return waited_.load(); }
  std::uint64_t looked() const noexcept { return looked_.load(); }
  std::uint64_t found() const noexcept { return found_.load(); }

  /// Whether this build can do it.
  static bool possible() noexcept;

private:
  friend struct zmq_waiting;

  busy_poll_limits limits_;
  std::atomic<std::uint64_t> waited_ = 0;
  std::atomic<std::uint64_t> looked_ = 0;
  std::atomic<std::uint64_t> found_ = 0;
};

} // namespace vgpu
