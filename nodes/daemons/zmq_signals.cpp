#include "nodes/daemons/zmq_signals.hpp"

#include "nodes/daemons/taken_functions.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <dlfcn.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

// These are the C library's functions under names that nothing replaces.
extern "C" {
ssize_t __read(int fd, void* into, size_t bytes);
ssize_t __write(int fd, const void* from, size_t bytes);
int __poll(pollfd* items, nfds_t count, int timeout);
int __close(int fd);
}

namespace vgpu {

namespace {

/// Descriptors with larger numbers keep their count in the kernel.
constexpr std::size_t most_descriptors = 4096;

std::atomic<bool> keeps = false;
std::array<zmq_signal, most_descriptors> signals;
std::array<zmq_signal*, most_descriptors> watched{};

bool in_range(int fd) noexcept {
  return fd >= 0 && static_cast<std::size_t>(fd) < most_descriptors;
}

} // namespace

// -- one descriptor -----------------------------------------------------------

zmq_signal* zmq_signal::of(int fd) noexcept {
  if (!in_range(fd))
    return nullptr;
  auto& out = signals[static_cast<std::size_t>(fd)];
  return out.known_.load(std::memory_order_acquire) ? &out : nullptr;
}

zmq_signal* zmq_signal::watched_by(int epoll) noexcept {
  return in_range(epoll) ? watched[static_cast<std::size_t>(epoll)] : nullptr;
}

void zmq_signal::keep(bool in_memory) noexcept {
  keeps = in_memory;
}

/// Signals the kernel if a thread sleeps. A thread that is about to sleep
/// either is counted in sleepers_ or sees the new count.
void zmq_signal::raise(std::uint64_t by) noexcept {
  count_.fetch_add(by);
  if (sleepers_.load() == 0)
    return;
  uses_kernel_ = true;
  constexpr std::uint64_t one = 1;
  (void)!__write(fd_, &one, sizeof(one));
}

std::uint64_t zmq_signal::take() noexcept {
  if (uses_kernel_.load(std::memory_order_relaxed))
    silence();
  return count_.exchange(0);
}

void zmq_signal::silence() noexcept {
  uses_kernel_ = false;
  std::uint64_t count = 0;
  (void)!__read(fd_, &count, sizeof(count));
}

} // namespace vgpu

#if VGPU_TAKES_FUNCTIONS

// -- what ZeroMQ calls --------------------------------------------------------

namespace vgpu {

namespace {

bool is_zeromqs(const void* caller) noexcept {
  Dl_info where{};
  return ::dladdr(caller, &where) != 0 && where.dli_fname != nullptr &&
         std::string_view{where.dli_fname}.find("libzmq") !=
             std::string_view::npos;
}

} // namespace

struct zmq_calls {
  using clock = std::chrono::steady_clock;

  static void begin(int fd, unsigned count) noexcept {
    if (!in_range(fd))
      return;
    auto& x = signals[static_cast<std::size_t>(fd)];
    x.count_ = count;
    x.sleepers_ = 0;
    x.uses_kernel_ = count != 0;
    x.next_ = nullptr;
    x.fd_ = fd;
    x.known_.store(true, std::memory_order_release);
  }

  static void end(zmq_signal& x) noexcept { x.known_ = false; }

  static void watch(int epoll, int operation, zmq_signal& what,
                    const epoll_event* how) noexcept {
    if (!in_range(epoll))
      return;
    auto& first = watched[static_cast<std::size_t>(epoll)];
    if (operation == EPOLL_CTL_ADD) {
      what.data_ = how->data;
      what.next_ = first;
      first = &what;
    } else if (operation == EPOLL_CTL_DEL) {
      auto** at = &first;
      while (*at != nullptr && *at != &what)
        at = &(*at)->next_;
      if (*at != nullptr)
        *at = what.next_;
    }
  }

  /// Does what poll() does, for items of which some are signals.
  static int poll(std::span<pollfd> items, int timeout) {
    auto until = clock::now() + std::chrono::milliseconds{timeout};
    for (;;) {
      auto asked = ask(items, timeout);
      if (asked != 0 || timeout == 0)
        return asked;
      // The kernel reported a signal that was taken meanwhile, or the time is
      // over.
      if (timeout < 0)
        continue;
      auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
      timeout = std::max(0, static_cast<int>(left.count()));
    }
  }

private:
  static int ask(std::span<pollfd> items, int timeout) {
    if (auto in_memory = look(items); in_memory)
      if (*in_memory > 0 || timeout == 0)
        return *in_memory;
    auto got = sleep(items, timeout);
    return got < 0 ? got : settle(items);
  }

  /// Returns the number of ready items, or nothing unless every item is a
  /// signal.
  static std::optional<int> look(std::span<pollfd> items) {
    auto out = 0;
    for (auto& x : items) {
      auto* signal = zmq_signal::of(x.fd);
      if (signal == nullptr)
        return std::nullopt;
      x.revents = signal->raised() ? x.events & POLLIN : 0;
      out += x.revents != 0;
    }
    return out;
  }

  static int sleep(std::span<pollfd> items, int timeout) {
    if (timeout == 0)
      return __poll(items.data(), items.size(), 0);
    auto each = [&](auto&& body) {
      for (auto& x : items)
        if (auto* signal = zmq_signal::of(x.fd))
          body(*signal);
    };
    return zmq_signal::sleep(each, [&](bool raised) {
      return __poll(items.data(), items.size(), raised ? 0 : timeout);
    });
  }

  static int settle(std::span<pollfd> items) {
    auto out = 0;
    for (auto& x : items) {
      if (auto* signal = zmq_signal::of(x.fd)) {
        auto raised = signal->raised();
        if (!raised && (x.revents & POLLIN) != 0)
          signal->silence();
        x.revents = raised ? x.events & POLLIN : 0;
      }
      out += x.revents != 0;
    }
    return out;
  }
};

} // namespace vgpu

VGPU_TAKEN int eventfd(unsigned count, int flags) noexcept {
  auto out = static_cast<int>(::syscall(SYS_eventfd2, count, flags));
  if (vgpu::keeps.load(std::memory_order_relaxed) &&
      vgpu::is_zeromqs(__builtin_return_address(0)))
    vgpu::zmq_calls::begin(out, count);
  return out;
}

VGPU_TAKEN ssize_t write(int fd, const void* from, size_t bytes) {
  auto* signal = vgpu::zmq_signal::of(fd);
  if (signal == nullptr) [[likely]]
    return __write(fd, from, bytes);
  std::uint64_t by = 0;
  if (bytes != sizeof(by)) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(&by, from, sizeof(by));
  signal->raise(by);
  return sizeof(by);
}

VGPU_TAKEN ssize_t read(int fd, void* into, size_t bytes) {
  auto* signal = vgpu::zmq_signal::of(fd);
  if (signal == nullptr) [[likely]]
    return __read(fd, into, bytes);
  auto count = signal->take();
  if (count == 0 || bytes != sizeof(count)) {
    errno = count == 0 ? EAGAIN : EINVAL;
    return -1;
  }
  std::memcpy(into, &count, sizeof(count));
  return sizeof(count);
}

VGPU_TAKEN int poll(pollfd* items, nfds_t count, int timeout) {
  std::span all{items, count};
  if (std::ranges::none_of(
          all, [](auto& x) { return vgpu::zmq_signal::of(x.fd) != nullptr; }))
    return __poll(items, count, timeout);
  return vgpu::zmq_calls::poll(all, timeout);
}

VGPU_TAKEN int epoll_ctl(int epoll, int operation, int fd,
                         epoll_event* how) noexcept {
  if (auto* signal = vgpu::zmq_signal::of(fd))
    vgpu::zmq_calls::watch(epoll, operation, *signal, how);
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, fd, how));
}

/// Only ZeroMQ's close() ends a signal. Other callers that close every
/// descriptor do so in a child that is about to execute another program.
VGPU_TAKEN int close(int fd) {
  auto* signal = vgpu::zmq_signal::of(fd);
  if (signal != nullptr && vgpu::is_zeromqs(__builtin_return_address(0)))
    vgpu::zmq_calls::end(*signal);
  return __close(fd);
}

#endif
