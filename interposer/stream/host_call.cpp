#include "interposer/stream/host_call.hpp"

#include "interposer/session/own_thread.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/session/uncancelled.hpp"
#include "interposer/stream/stream_part.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <unistd.h>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

/// A GPU's channel takes about a thousand commands, and each call may become
/// two of them.
constexpr std::uint32_t most_behind = 500;
/// A thread waits no longer than this for a function that may wait for it.
constexpr auto most_patience = 10s;

} // namespace

CUresult host_caller::add(stream& in, CUhostFn function, void* data) {
  return enqueue(in,
                 {.what = kind::function, .function = function, .data = data},
                 call::host_call{{in.wire}});
}

CUresult host_caller::add(stream& in, CUstream handle,
                          CUstreamCallback function, void* data) {
  return enqueue(in,
                 {.what = kind::callback,
                  .callback = function,
                  .handle = handle,
                  .data = data},
                 call::host_call{{in.wire}});
}

CUresult host_caller::add_host_wait(stream& in, const awaited_value& what) {
  return enqueue(in, {.what = kind::host_wait, .word = what},
                 call::host_call{{in.wire}});
}

CUresult host_caller::add_device_wait(stream& in, const awaited_value& what,
                                      bool writes) {
  return enqueue(in,
                 {.what = kind::device_wait, .word = what, .writes = writes},
                 call::wait_value{{in.wire},
                                  what.address,
                                  what.value,
                                  what.bytes,
                                  static_cast<std::uint32_t>(what.test)});
}

CUresult host_caller::add_store(stream& in, const awaited_value& what) {
  return enqueue(in, {.what = kind::store, .word = what},
                 call::host_call{{in.wire}});
}

CUresult host_caller::add_task(stream& in, std::shared_ptr<stream_task> what,
                               std::uint64_t begin, std::uint64_t end) {
  return enqueue(
      in,
      {.what = kind::task, .task = std::move(what), .begin = begin, .end = end},
      call::host_call{{in.wire}});
}

CUresult host_caller::add_turn(stream& in, slot_index slot,
                               std::shared_ptr<turn_taker> who) {
  entry what{.what = kind::turn, .who = std::move(who)};
  what.asked.slot = slot;
  return enqueue(in, std::move(what), call::host_call{{in.wire}});
}

template <class Call>
CUresult host_caller::enqueue(stream& in, entry what, const Call& call) {
  {
    std::lock_guard guard{mutex_};
    start(server_of(what.what));
  }
  std::shared_lock appending{appending_, std::defer_lock};
  if (!runs_host_functions())
    appending.lock();
  pending_.fetch_add(1);
  // The thread that frees slots needs the lock, so this must not hold it.
  what.device = in.device();
  what.asked = what.asked.slot == 0
                   ? here().begin(call, in.device())
                   : here().begin(call, in.device(), what.asked.slot);
  auto number = what.asked.call.value;
  pending_call pending;
  pending.only_waits =
      what.what == kind::host_wait || what.what == kind::device_wait;
  // A graph's next part depends only on the device.
  pending.in_the_way = !pending.only_waits && what.what != kind::turn;
  if (what.what == kind::function || what.what == kind::callback || what.writes)
    pending.end = ~std::uint64_t{0};
  else if (what.what == kind::store)
    pending = {what.word.address, what.word.address + what.word.bytes};
  else if (what.what == kind::task)
    std::tie(pending.begin, pending.end) = std::pair{what.begin, what.end};
  {
    std::lock_guard guard{mutex_};
    // Work that was appended behind calls which are done does not count.
    if (!is_held(in))
      in.since_held.store(0, std::memory_order_relaxed);
    pending.appended = appended_.load(std::memory_order_relaxed);
    pending_calls_.emplace(number, pending);
    note_room();
    waiting_.push_back(what);
    added_.notify_all();
  }
  in.wait_behind(number);
  in.worked(what.asked.call);
  return CUDA_SUCCESS;
}

host_caller::server host_caller::server_of(kind x) noexcept {
  return x == kind::function || x == kind::callback ? server::functions
                                                    : server::own_work;
}

void host_caller::start(server which) {
  auto& started = started_[static_cast<std::size_t>(which)];
  if (started)
    return;
  if (!start_own_thread([this, which] { serve(which); }))
    throw std::runtime_error{"cannot start a thread for host functions"};
  started = true;
}

bool host_caller::has_turn(const entry& x, CUresult& status) {
  auto state = static_cast<slot_state>(
      here().area().at(x.asked.slot).state.load(std::memory_order_acquire));
  status = CUDA_SUCCESS;
  if (state == slot_state::called)
    return true;
  auto got = here().slots().poll(x.asked);
  if (!got) {
    // A stream stands still where its device has failed, but its callbacks
    // still get the error.
    auto is_functions = server_of(x.what) == server::functions;
    status = is_functions ? here().sticky() : CUDA_SUCCESS;
    return status != CUDA_SUCCESS;
  }
  // The slot holds an answer, not a call: the stream had already ended in an
  // error.
  status = got->result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : got->result;
  return true;
}

bool host_caller::has_work(server which) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const entry& x) {
    return server_of(x.what) == which;
  });
}

host_caller::found host_caller::next(server which, entry& out,
                                     CUresult& status) {
  auto polled = false;
  auto ready = std::find_if(waiting_.begin(), waiting_.end(), [&](entry& x) {
    if (server_of(x.what) != which || !has_turn(x, status))
      return false;
    if (x.what != kind::host_wait || status != CUDA_SUCCESS ||
        x.word.address == 0 || x.word.met_by(x.word.read()))
      return true;
    polled = true;
    return false;
  });
  if (ready == waiting_.end())
    return polled ? found::waits : found::nothing;
  out = *ready;
  waiting_.erase(ready);
  runs(which) = true;
  return found::one;
}

void host_caller::end_waits_in(std::uint64_t at, std::uint64_t bytes) {
  std::lock_guard guard{mutex_};
  for (auto& x : waiting_)
    if (x.what == kind::host_wait && x.word.address - at < bytes)
      x.word.address = 0;
}

void host_caller::run(const entry& x, CUresult status) {
  session_part::get().after_wait.run();
  if (x.task != nullptr)
    return take_step(x, status);
  // A driver writes the text of kernels before it runs a callback.
  if (x.what == kind::callback || x.what == kind::function) {
    here().deliver_console();
    here().send(call::host_begun{x.asked.call.value}, x.device);
  }
  if (x.what == kind::callback)
    x.callback(x.handle, status, x.data);
  else if (x.what == kind::function && status == CUDA_SUCCESS)
    x.function(x.data);
  else if (x.what == kind::store && status == CUDA_SUCCESS)
    x.word.write();
  if (status == CUDA_SUCCESS) {
    session_part::get().before_wait.run();
    here().send(call::host_done{x.asked.call.value}, x.device);
  }
  if (x.what == kind::turn)
    here().slots().rest(x.asked.slot);
  else
    here().slots().give(x.asked.slot);
  finish(x.asked.call);
  // The stream has continued, so more work can be appended now than a device
  // takes while its stream waits.
  if (x.what == kind::turn)
    x.who->take_turn(status);
}

/// Takes the next step of a task. The begin of a later step tells a replay that
/// the work of the step before was done. The first step has no such record, so
/// that a worker never lets the stream continue ahead of the task's own work.
void host_caller::take_step(const entry& x, CUresult status) {
  auto& s = here();
  auto later = x.what == kind::task_step;
  if (later) {
    if (status == CUDA_SUCCESS) {
      s.send(call::host_begun{x.asked.call.value}, x.device);
      s.send(call::host_done{x.asked.call.value}, x.device);
    }
    end(x.asked);
  }
  const auto& whole = later ? x.whole : x.asked;
  if (auto* next = x.task->step(status); next != nullptr) {
    (void)enqueue(*next,
                  {.what = kind::task_step,
                   .task = x.task,
                   .whole = whole,
                   .side = next->wire},
                  call::host_call{{next->wire}});
    return;
  }
  if (later || status == CUDA_SUCCESS) {
    session_part::get().before_wait.run();
    if (later)
      s.send(call::host_ended{whole.call.value, {x.side}}, x.device);
    else
      s.send(call::host_done{whole.call.value}, x.device);
  }
  end(whole);
  x.task->continued();
}

void host_caller::end(const ticket& x) {
  here().slots().give(x.slot);
  finish(x.call);
}

void host_caller::finish(call_number x) {
  pending_.fetch_sub(1);
  std::lock_guard guard{mutex_};
  pending_calls_.erase(x.value);
  note_room();
  ++ended_calls_;
  ended_.notify_all();
}

void host_caller::serve(server which) {
  become_host_function_thread();
  constexpr auto soonest = 20us, latest = 1000us;
  auto pause = soonest;
  auto& upcalls = here().area().header().upcalls;
  for (;;) {
    auto seen = upcalls.load(std::memory_order_acquire);
    entry x;
    auto status = CUDA_SUCCESS;
    auto what = found::nothing;
    {
      std::unique_lock guard{mutex_};
      added_.wait(guard, [&] { return has_work(which); });
      what = next(which, x, status);
    }
    // At exit the program's memory may already be freed.
    if (process::now() != phase::running)
      for (;;)
        ::pause();
    try {
      if (what == found::one)
        run(x, status);
      else
        sleep_while(upcalls, seen, what == found::waits ? pause : 100ms);
    } catch (const std::exception& e) {
      report_exception(e.what());
    }
    if (what == found::one) {
      std::lock_guard guard{mutex_};
      runs(which) = false;
      ended_.notify_all();
    }
    pause = what == found::waits ? std::min(2 * pause, latest) : soonest;
  }
}

bool host_caller::is_held(const stream& x) const {
  auto open = [&](const std::atomic<std::uint64_t>& call) {
    return pending_calls_.contains(call.load(std::memory_order_relaxed));
  };
  return open(x.behind) ||
         (!x.non_blocking() && x.owner.legacy && open(x.owner.legacy->behind));
}

void host_caller::hold_back(stream& in) {
  // The legacy stream waits for all blocking ones.
  if (in.is_legacy())
    in.wait_behind(in.blocking_behind.load(std::memory_order_relaxed));
  auto appended = appended_.fetch_add(1, std::memory_order_relaxed) + 1;
  auto since = in.since_held.fetch_add(1, std::memory_order_relaxed);
  if (runs_host_functions())
    return;
  if (appended > room_until_.load(std::memory_order_relaxed))
    wait_for_room();
  if (since < most_behind)
    return;
  std::unique_lock guard{mutex_};
  wait_while(guard, [&] { return is_held(in); });
  in.since_held.store(0, std::memory_order_relaxed);
}

void host_caller::note_room() {
  auto first =
      std::find_if(pending_calls_.begin(), pending_calls_.end(), [](auto& x) {
        return x.second.in_the_way && !x.second.given_up;
      });
  room_until_.store(first == pending_calls_.end()
                        ? ~std::uint64_t{0}
                        : first->second.appended + most_behind,
                    std::memory_order_relaxed);
}

void host_caller::wait_for_room() {
  std::unique_lock guard{mutex_};
  wait_for_ends(guard, [this] {
    return appended_.load(std::memory_order_relaxed) >
           room_until_.load(std::memory_order_relaxed);
  });
}

std::uint64_t host_caller::ended() {
  std::lock_guard guard{mutex_};
  return ended_calls_;
}

bool host_caller::wait_for_more_than(std::uint64_t before) {
  if (runs_host_functions())
    return false;
  std::unique_lock guard{mutex_};
  wait_for_ends(guard, [&] {
    return ended_calls_ <= before && !pending_calls_.empty() &&
           std::none_of(pending_calls_.begin(), pending_calls_.end(),
                        [](auto& x) { return x.second.given_up; });
  });
  return ended_calls_ > before;
}

void host_caller::wait_for_functions() {
  std::unique_lock guard{mutex_};
  wait_for_ends(guard, [this] {
    return runs(server::functions) || runs(server::own_work) ||
           std::any_of(pending_calls_.begin(), pending_calls_.end(),
                       [](auto& x) {
                         return !x.second.only_waits && !x.second.given_up;
                       });
  });
}

template <class Condition>
void host_caller::wait_for_ends(std::unique_lock<std::mutex>& guard,
                                const Condition& so) {
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto until = now() + most_patience;
  auto ended = ended_calls_;
  wait_while(guard, [&] {
    if (std::exchange(ended, ended_calls_) != ended_calls_)
      until = now() + most_patience;
    // At exit no function gets its turn any more.
    return process::now() == phase::running && now() < until && so();
  });
  if (!so())
    return;
  // A function may wait for this thread, so no thread waits for these functions
  // any longer.
  for (auto& [number, x] : pending_calls_)
    x.given_up = true;
  running_.fill(false);
  note_room();
}

template <class Condition>
void host_caller::wait_while(std::unique_lock<std::mutex>& guard,
                             const Condition& so) {
  uncancelled through;
  while (so()) {
    if (ended_.wait_for(guard, 100ms) == std::cv_status::timeout) {
      guard.unlock();
      here().idle()();
      guard.lock();
    }
  }
}

bool host_caller::may_change(std::uint64_t at, std::uint64_t bytes) {
  if (pending_.load(std::memory_order_acquire) == 0)
    return false;
  std::lock_guard guard{mutex_};
  return std::any_of(
      pending_calls_.begin(), pending_calls_.end(), [&](auto& x) {
        return x.second.only_waits ||
               (x.second.begin < at + bytes && at < x.second.end);
      });
}

host_caller& host_calls() noexcept {
  return stream_part::get().host_calls;
}

} // namespace vgpu::interposer
