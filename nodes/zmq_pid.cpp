// ZeroMQ asks before each use of an eventfd whether its process was forked
// meanwhile: a system call, 22 of them for a message and its answer. The C
// library remembers no process's number, so these programs do, by the way that
// zmq_looks.hpp describes.
#include <atomic>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace vgpu {

namespace {

std::atomic<pid_t> own_number = 0;

pid_t ask() noexcept {
  return static_cast<pid_t>(::syscall(SYS_getpid));
}

/// A child of fork() asks again. (One of vfork() has its parent's memory, and
/// may do nothing but become another program.)
pid_t ask_and_remember() noexcept {
  static const auto forgets = ::pthread_atfork(
      nullptr, nullptr, [] { own_number.store(0, std::memory_order_relaxed); });
  auto number = ask();
  if (forgets == 0)
    own_number.store(number, std::memory_order_relaxed);
  return number;
}

} // namespace

} // namespace vgpu

/// Asked before the C library's.
extern "C" __attribute__((visibility("default"))) pid_t getpid() noexcept {
  auto number = vgpu::own_number.load(std::memory_order_relaxed);
  return number != 0 ? number : vgpu::ask_and_remember();
}

#endif
