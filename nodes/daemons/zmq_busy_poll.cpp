#include "nodes/daemons/zmq_busy_poll.hpp"

#include "nodes/daemons/taken_functions.hpp"
#include "nodes/daemons/zmq_signals.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include <pthread.h>
#include <sys/epoll.h>

namespace vgpu {

namespace {

/// Holds the zmq_busy_poll that ZeroMQ's threads use. It is global, because a
/// function of the C library cannot get it in another way.
std::atomic<zmq_busy_poll*> at_work = nullptr;

} // namespace

zmq_busy_poll::zmq_busy_poll(busy_poll_limits limits) : limits_(limits) {
  zmq_busy_poll* none = nullptr;
  if (!at_work.compare_exchange_strong(none, this))
    throw std::logic_error{"only one zmq_busy_poll may exist in a process"};
  zmq_signal::keep(true);
}

zmq_busy_poll::~zmq_busy_poll() {
  zmq_signal::keep(false);
  at_work = nullptr;
}

bool zmq_busy_poll::possible() noexcept {
  return VGPU_TAKES_FUNCTIONS != 0;
}

#if VGPU_TAKES_FUNCTIONS

namespace {

/// Recognises an I/O thread by its name, which ZeroMQ sets before the thread
/// does anything else.
bool is_io_thread() noexcept {
  constexpr std::string_view io_threads = "ZMQbg/IO/";
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view{name.data()}.starts_with(io_threads);
}

/// Makes the same system call as the C library's epoll_wait, with the same
/// cancellation point, by a function that nothing replaces.
int real_wait(int fd, epoll_event* events, int count, int timeout) {
  return ::epoll_pwait(fd, events, count, timeout, nullptr);
}

/// Combines the sources of a ZeroMQ thread: connections, which the kernel
/// reports, and signals of other threads.
class waiting {
public:
  waiting(int fd, epoll_event* events, int count)
      : fd_(fd), events_(events), count_(count),
        signals_(zmq_signal::watched_by(fd)) {}

  /// Returns the events that are ready, or an error, without sleeping.
  int look() {
    // A thread that always gets work of other threads still serves its
    // connections.
    constexpr auto signals_alone = 8U;
    constexpr auto polls_of_memory = 4;
    thread_local unsigned alone = 0;
    if (signals_ != nullptr && ++alone % signals_alone != 0)
      for (int i = 0; i < polls_of_memory; ++i) {
        if (auto got = add_signals(0); got != 0)
          return got;
        __builtin_ia32_pause();
      }
    return settle(real_wait(fd_, events_, count_, 0));
  }

  int sleep(int timeout) {
    if (signals_ == nullptr || timeout == 0)
      return settle(real_wait(fd_, events_, count_, timeout));
    auto all = [this](const auto& body) { each(body); };
    return settle(zmq_signal::sleep(all, [&](bool raised) {
      return real_wait(fd_, events_, count_, raised ? 0 : timeout);
    }));
  }

private:
  template <class Body>
  void each(const Body& body) {
    for (auto* x = signals_; x != nullptr; x = x->next())
      body(*x);
  }

  int add_signals(int got) {
    each([&](zmq_signal& x) {
      if (x.raised() && got < count_)
        events_[got++] = x.event();
    });
    return got;
  }

  /// Replaces the kernel's reports of signals by the counts in memory, because
  /// the kernel learns of a signal only while a thread sleeps on it.
  int settle(int got) {
    if (signals_ == nullptr || got < 0)
      return got;
    auto is_signal = [&](const epoll_event& event) {
      auto found = false;
      each([&](zmq_signal& x) {
        if (!x.is(event))
          return;
        found = true;
        if (!x.raised())
          x.silence();
      });
      return found;
    };
    auto* end = std::remove_if(events_, events_ + got, is_signal);
    return add_signals(static_cast<int>(end - events_));
  }

  int fd_;
  epoll_event* events_;
  int count_;
  zmq_signal* signals_;
};

} // namespace

struct zmq_waiting {
  static void note(std::atomic<std::uint64_t>& what) noexcept {
    what.fetch_add(1, std::memory_order_relaxed);
  }

  static int wait(zmq_busy_poll& own, waiting& on, int timeout) {
    // The rule is per thread, because the connections of threads differ.
    thread_local busy_poll rule{own.limits_};
    auto began = busy_poll::clock::now();
    note(own.waited_);
    if (rule.time(began) > busy_poll::nanoseconds{0})
      note(own.busy_polled_);
    auto got = 0;
    auto found = [&] {
      got = on.look();
      return got != 0;
    };
    if (rule.wait_for(began, found)) {
      note(own.found_);
      return got;
    }
    got = on.sleep(timeout);
    rule.learned(busy_poll::clock::now() - began);
    return got;
  }
};

#endif

} // namespace vgpu

#if VGPU_TAKES_FUNCTIONS

/// Replaces the C library's function: see zmq_busy_poll.
VGPU_TAKEN int epoll_wait(int fd, epoll_event* events, int count, int timeout) {
  thread_local const auto polls = vgpu::is_io_thread();
  auto* own = polls && timeout != 0 ? vgpu::at_work.load() : nullptr;
  vgpu::waiting on{fd, events, count};
  return own == nullptr ? on.sleep(timeout)
                        : vgpu::zmq_waiting::wait(*own, on, timeout);
}

#endif
