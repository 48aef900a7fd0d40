#include "interposer/session/own_thread.hpp"

#include <csignal>
#include <memory>

#include <pthread.h>

namespace vgpu::interposer {

namespace {

thread_local bool host_function_thread = false;

void* run_own_thread(void* argument) {
  std::unique_ptr<std::function<void()>> body{
      static_cast<std::function<void()>*>(argument)};
  (*body)();
  return nullptr;
}

} // namespace

bool start_own_thread(std::function<void()> body) {
  auto argument = std::make_unique<std::function<void()>>(std::move(body));
  sigset_t all, before;
  ::sigfillset(&all);
  for (auto own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    ::sigdelset(&all, own);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  auto failed =
      ::pthread_create(&thread, nullptr, run_own_thread, argument.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0)
    return false;
  // The thread owns it now.
  (void)argument.release();
  ::pthread_detach(thread);
  return true;
}

bool runs_host_functions() noexcept {
  return host_function_thread;
}

void become_host_function_thread() noexcept {
  host_function_thread = true;
}

} // namespace vgpu::interposer
