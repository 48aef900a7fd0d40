// The handler of the signal that touching managed memory raises.
#include "interposer/memory/managed_fault.hpp"

#include "interposer/memory/managed.hpp"
#include "interposer/memory/memory_part.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <pthread.h>
#include <ucontext.h>

namespace vgpu::interposer {

namespace {

fault_handlers& before() noexcept {
  return memory_part::get().faults;
}

thread_local bool passing_on __attribute__((tls_model("initial-exec"))) = false;

void on_segv(int number, siginfo_t* info, void* context);

bool is_ours(const struct sigaction& x) {
  return (x.sa_flags & SA_SIGINFO) != 0 && x.sa_sigaction == on_segv;
}

/// Calls the handler before ours as the kernel would have.
void pass_on(int number, siginfo_t* info, void* context) {
  auto& old = passing_on ? before().first : before().latest;
  if (is_ours(old) || old.sa_handler == SIG_DFL ||
      // A fault cannot be ignored.
      old.sa_handler == SIG_IGN) {
    struct sigaction end {};
    end.sa_handler = SIG_DFL;
    // The instruction runs again.
    ::sigaction(number, &end, nullptr);
    return;
  }
  passing_on = true;
  ::pthread_sigmask(SIG_BLOCK, &old.sa_mask, nullptr);
  if ((old.sa_flags & SA_NODEFER) != 0) {
    sigset_t own;
    ::sigemptyset(&own);
    ::sigaddset(&own, number);
    ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  if ((old.sa_flags & SA_SIGINFO) != 0)
    old.sa_sigaction(number, info, context);
  else
    old.sa_handler(number);
  passing_on = false;
}

enum class access { read, write, execute };

access access_of(const void* context) {
#ifdef __x86_64__
  // The bits are those of the processor's page-fault error code (Intel SDM
  // volume 3, "Page-Fault Exceptions").
  constexpr long long by_write = 1 << 1;
  constexpr long long by_fetch = 1 << 4;
  auto code =
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
  if ((code & by_fetch) != 0)
    return access::execute;
  return (code & by_write) != 0 ? access::write : access::read;
#else
  (void)context;
  return access::write;
#endif
}

void on_segv(int number, siginfo_t* info, void* context) {
  auto saved = errno;
#ifdef __x86_64__
  // The kernel puts the frame right below the context, so the kernel and no
  // handler made this call. A handler to which a signal was passed on may have
  // left by a jump.
  if (__builtin_dwarf_cfa() == context)
    passing_on = false;
#endif
  auto how = access_of(context);
  auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  auto done = info->si_code == SEGV_ACCERR && how != access::execute &&
              managed().touch(at, how == access::write);
  if (!done)
    pass_on(number, info, context);
  errno = saved;
}

} // namespace

void watch_managed_memory() noexcept {
  std::lock_guard guard{before().mutex};
  struct sigaction now {};
  if (::sigaction(SIGSEGV, nullptr, &now) != 0 || is_ours(now))
    return;
  auto& known = before();
  if (!known.watching)
    known.first = now;
  known.latest = now;
  known.watching = true;
  struct sigaction ours {};
  ours.sa_sigaction = on_segv;
  ::sigemptyset(&ours.sa_mask);
  // Our handler runs on the stack of the previous handler, because a signal
  // stack may be too small for both.
  ours.sa_flags = SA_SIGINFO | SA_RESTART | (now.sa_flags & SA_ONSTACK);
  ::sigaction(SIGSEGV, &ours, nullptr);
}

} // namespace vgpu::interposer
