#include "interposer/host_call.hpp"

#include "interposer/process.hpp"
#include "interposer/session.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <stdexcept>

#include <pthread.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

session& here() {
  return process::the_session();
}

thread_local bool runs_host_functions = false;

} // namespace

CUresult host_caller::add(stream& in, CUhostFn function, void* data) {
  return enqueue(in, {.function = function, .data = data});
}

CUresult host_caller::add(stream& in, CUstream handle,
                          CUstreamCallback function, void* data) {
  return enqueue(in, {.callback = function, .handle = handle, .data = data});
}

CUresult host_caller::enqueue(stream& in, entry what) {
  {
    std::lock_guard guard{mutex_};
    start();
  }
  pending_.fetch_add(1);
  // Not under the lock, which the thread that frees slots needs.
  what.device = in.device();
  what.asked = here().begin(call::host_call{{in.wire}}, in.device());
  {
    std::lock_guard guard{mutex_};
    waiting_.push_back(what);
    added_.notify_one();
  }
  in.worked(what.asked.call);
  return CUDA_SUCCESS;
}

void host_caller::start() {
  if (started_)
    return;
  // The program's signals are the program's threads' business, but for what a
  // host function raises by itself, by touching managed memory for example.
  sigset_t all, before;
  ::sigfillset(&all);
  for (auto own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    ::sigdelset(&all, own);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  auto failed = ::pthread_create(
      &thread, nullptr,
      [](void* self) -> void* { static_cast<host_caller*>(self)->serve(); },
      this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0)
    throw std::runtime_error{"cannot start a thread for host functions"};
  // It lives as long as the process, whose exit it must not hold up.
  ::pthread_detach(thread);
  started_ = true;
}

bool host_caller::next(entry& out, CUresult& status) {
  auto ready = std::find_if(waiting_.begin(), waiting_.end(), [&](entry& x) {
    auto state = static_cast<slot_state>(
        here().area().at(x.asked.slot).state.load(std::memory_order_acquire));
    status = CUDA_SUCCESS;
    if (state == slot_state::called)
      return true;
    auto got = here().slots().poll(x.asked);
    if (!got)
      return false;
    // Answered instead of called: the stream ended in an error before.
    status = got->result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : got->result;
    return true;
  });
  if (ready == waiting_.end())
    return false;
  out = *ready;
  waiting_.erase(ready);
  return true;
}

void host_caller::run(const entry& x, CUresult status) {
  if (x.callback != nullptr)
    x.callback(x.handle, status, x.data);
  else if (status == CUDA_SUCCESS)
    x.function(x.data);
  if (status == CUDA_SUCCESS)
    here().send(call::host_done{x.asked.call.value}, x.device);
  here().slots().give(x.asked.slot);
  if (pending_.fetch_sub(1) == 1)
    behind_ = 0;
  std::lock_guard guard{mutex_};
  ended_.notify_all();
}

void host_caller::serve() {
  runs_host_functions = true;
  auto& upcalls = here().area().header().upcalls;
  for (;;) {
    auto seen = upcalls.load(std::memory_order_acquire);
    entry x;
    auto status = CUDA_SUCCESS;
    bool found = false;
    {
      std::unique_lock guard{mutex_};
      added_.wait(guard, [&] { return !waiting_.empty(); });
      found = next(x, status);
    }
    // At exit the program's memory is being taken down.
    if (process::now() != phase::running)
      for (;;)
        ::pause();
    try {
      if (found)
        run(x, status);
      else
        sleep_while(upcalls, seen, 100ms);
    } catch (const std::exception& e) {
      report_exception(e.what());
    }
  }
}

void host_caller::hold_back() {
  // A GPU's channel takes about a thousand commands, and what is appended may
  // become two of them.
  constexpr std::size_t most = 500;
  if (behind_.fetch_add(1) >= most)
    wait_for_all();
}

void host_caller::wait_for_all() {
  if (runs_host_functions || pending_.load(std::memory_order_acquire) == 0)
    return;
  std::unique_lock guard{mutex_};
  while (pending_.load() != 0) {
    if (ended_.wait_for(guard, 100ms) == std::cv_status::timeout) {
      guard.unlock();
      here().idle()();
      guard.lock();
    }
  }
}

host_caller& host_calls() {
  static auto& all = *new host_caller;
  return all;
}

} // namespace vgpu::interposer
