// ZeroMQ asks before each use of an eventfd whether its process was forked
// meanwhile: a system call, 22 of them for a message and its answer. The C
// library remembers no process's number, so these programs do, by the way that
// zmq_busy_poll.hpp describes.
#include "nodes/daemons/taken_functions.hpp"

#include <atomic>
#include <new>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if VGPU_TAKES_FUNCTIONS

namespace vgpu {

namespace {

using number = std::atomic<pid_t>;

/// In memory that is empty in a child, whoever forks it, so that this asks
/// again. (One of vfork() has its parent's memory, and may do nothing but
/// become another program.) Null where the kernel has no such memory.
number* make_known() noexcept {
  auto* page = ::mmap(nullptr, sizeof(number), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED ||
      ::madvise(page, sizeof(number), MADV_WIPEONFORK) != 0)
    return nullptr;
  return new (page) number{0};
}

pid_t own_number() noexcept {
  static auto* const known = make_known();
  if (auto x = known ? known->load(std::memory_order_relaxed) : 0; x != 0)
    return x;
  auto x = static_cast<pid_t>(::syscall(SYS_getpid));
  if (known != nullptr)
    known->store(x, std::memory_order_relaxed);
  return x;
}

} // namespace

} // namespace vgpu

/// Asked before the C library's.
VGPU_TAKEN pid_t getpid() noexcept {
  return vgpu::own_number();
}

#endif
