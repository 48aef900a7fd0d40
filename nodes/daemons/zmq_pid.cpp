// Replaces getpid() in our programs. ZeroMQ checks before each use of an
// eventfd whether its process was forked meanwhile, which takes many system
// calls for each message. The C library does not cache the process's number, so
// these programs do. zmq_busy_poll.hpp explains how they replace a function.
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

/// Returns memory for the number that a forked child finds zeroed, so that it
/// asks the kernel again. (A child of vfork() shares its parent's memory, but
/// it may only execute another program.) Returns null where the kernel has no
/// such memory.
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

/// Replaces the C library's function.
VGPU_TAKEN pid_t getpid() noexcept {
  return vgpu::own_number();
}

#endif
