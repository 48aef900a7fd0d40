#include "schema/log/memory_size.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <limits>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace vgpu {

namespace {

/// Keeps SIGXFSZ from the calling thread.
class without_signal {
public:
  without_signal() noexcept {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGXFSZ) == 1;
  }
  without_signal(const without_signal&) = delete;
  without_signal& operator=(const without_signal&) = delete;
  ~without_signal() {
    auto error = errno;
    // The kernel sends the signal to the thread that caused it.
    constexpr timespec at_once{};
    if (!was_pending_)
      while (::sigtimedwait(&set_, nullptr, &at_once) < 0 && errno == EINTR)
        continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

private:
  sigset_t set_, before_;
  bool was_pending_ = false;
};

bool size(int fd, std::uint64_t bytes) noexcept {
  return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
}

bool size_with_limit(int fd, std::uint64_t bytes,
                     const rlimit& limit) noexcept {
  rlimit before{};
  if (::prlimit(0, RLIMIT_FSIZE, &limit, &before) != 0) {
    errno = EFBIG;
    return false;
  }
  auto done = size(fd, bytes);
  auto error = errno;
  ::setrlimit(RLIMIT_FSIZE, &before);
  errno = error;
  return done;
}

} // namespace

bool size_memory(int fd, std::uint64_t bytes) noexcept {
  without_signal guard;
  if (size(fd, bytes))
    return true;
  rlimit now{};
  if (errno != EFBIG || ::getrlimit(RLIMIT_FSIZE, &now) != 0)
    return false;
  // The first is for privileged processes alone.
  return size_with_limit(fd, bytes, {RLIM_INFINITY, RLIM_INFINITY}) ||
         size_with_limit(fd, bytes, {now.rlim_max, now.rlim_max});
}

std::uint64_t largest_file() noexcept {
  rlimit now{};
  if (::getrlimit(RLIMIT_FSIZE, &now) != 0 || now.rlim_max == RLIM_INFINITY)
    return std::numeric_limits<std::int64_t>::max();
  return now.rlim_max;
}

} // namespace vgpu
