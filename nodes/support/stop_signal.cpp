#include "nodes/support/stop_signal.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace vgpu {

stop_signal::stop_signal() {
  ::signal(SIGPIPE, SIG_IGN);
  // A write beyond RLIMIT_FSIZE then fails with EFBIG.
  ::signal(SIGXFSZ, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  for (auto x : {SIGTERM, SIGINT, SIGHUP})
    ::sigaddset(&set, x);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  if (signals_ < 0)
    throw std::system_error{errno, std::generic_category(), "signalfd"};
}

stop_signal::~stop_signal() {
  ::close(signals_);
}

void stop_signal::stop(int status) noexcept {
  status_ = status;
  bell_.ring();
}

int stop_signal::wait() {
  pollfd items[] = {{signals_, POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
  while (::poll(items, 2, -1) < 0 && errno == EINTR)
    continue;
  return items[1].revents != 0 ? status_.load() : 0;
}

void stop_signal::await_stop(std::chrono::milliseconds at_most) {
  pollfd rung{bell_.fd(), POLLIN, 0};
  (void)::poll(&rung, 1, static_cast<int>(at_most.count()));
}

} // namespace vgpu
