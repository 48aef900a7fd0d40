#include "nodes/zmq_looks.hpp"

#include <array>
#include <stdexcept>
#include <string_view>

#include <pthread.h>
#include <sys/epoll.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VGPU_ZMQ_LOOKS 0
#else
#define VGPU_ZMQ_LOOKS 1
#endif

namespace vgpu {

namespace {

/// What ZeroMQ's threads find. A function of the C library has no other way.
std::atomic<zmq_looks*> at_work = nullptr;

} // namespace

zmq_looks::zmq_looks(busy_poll_limits limits) : limits_(limits) {
  zmq_looks* none = nullptr;
  if (!at_work.compare_exchange_strong(none, this))
    throw std::logic_error{"ZeroMQ's threads look on already"};
}

zmq_looks::~zmq_looks() {
  at_work = nullptr;
}

bool zmq_looks::possible() noexcept {
  return VGPU_ZMQ_LOOKS != 0;
}

#if VGPU_ZMQ_LOOKS

namespace {

/// By the name that ZeroMQ gives them before they do anything.
bool is_io_thread() noexcept {
  constexpr std::string_view io_threads = "ZMQbg/IO/";
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view{name.data()}.starts_with(io_threads);
}

/// The same system call and the same point of cancellation as epoll_wait of the
/// C library, under a name that nobody takes.
int real_wait(int fd, epoll_event* events, int count, int timeout) {
  return ::epoll_pwait(fd, events, count, timeout, nullptr);
}

} // namespace

struct zmq_waiting {
  static void note(std::atomic<std::uint64_t>& what) noexcept {
    what.fetch_add(1, std::memory_order_relaxed);
  }

  static int wait(zmq_looks& own, int fd, epoll_event* events, int count,
                  int timeout) {
    // What one thread learns of its connections is nothing to the others.
    thread_local busy_poll rule{own.limits_};
    auto began = busy_poll::clock::now();
    note(own.waited_);
    if (rule.time(began) > busy_poll::nanoseconds{0})
      note(own.looked_);
    auto got = 0;
    // What is there, or why nothing can be.
    auto found = [&] {
      got = real_wait(fd, events, count, 0);
      return got != 0;
    };
    if (rule.look(began, found)) {
      note(own.found_);
      return got;
    }
    got = real_wait(fd, events, count, timeout);
    rule.learned(busy_poll::clock::now() - began);
    return got;
  }
};

#endif

} // namespace vgpu

#if VGPU_ZMQ_LOOKS

/// Asked before the C library's: see zmq_looks.
extern "C" __attribute__((visibility("default"))) int
epoll_wait(int fd, epoll_event* events, int count, int timeout) {
  thread_local const auto looks = vgpu::is_io_thread();
  auto* own = looks && timeout != 0 ? vgpu::at_work.load() : nullptr;
  return own == nullptr
             ? vgpu::real_wait(fd, events, count, timeout)
             : vgpu::zmq_waiting::wait(*own, fd, events, count, timeout);
}

#endif
