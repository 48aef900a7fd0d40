#include "devices/cpu/run/scheduler.hpp"

#include "schema/base/cuda_fault.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace vgpu::device::cpu {

// -- job_thread ---------------------------------------------------------------

job_thread::job_thread(int nice, pauses between)
    : between_{std::move(between)}, thread_{[this, nice] { run(nice); }} {}

void job_thread::run(int nice) {
  if (nice != 0)
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
  auto lock = std::unique_lock{mutex_};
  while (true) {
    if (between_.rest && !has_job())
      if (auto until = between_.rest();
          until && !wake_.wait_until(lock, *until, [&] { return has_job(); })) {
        lock.unlock();
        between_.leave();
        lock.lock();
      }
    wake_.wait(lock, [&] { return has_job(); });
    if (stopping_) {
      lock.unlock();
      if (between_.leave)
        between_.leave();
      return;
    }
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

void job_thread::post(std::function<void()> job) {
  {
    auto lock = std::lock_guard{mutex_};
    if (stopping_)
      return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void job_thread::stop() {
  {
    auto lock = std::lock_guard{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

void job_thread::freeze() {
  auto lock = std::lock_guard{mutex_};
  frozen_ = true;
}

// -- scheduler ----------------------------------------------------------------

namespace {

fault no_stream(stream_id id) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                    "stream " + std::to_string(id.value) + " does not exist");
}

fault no_event(event_id id) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                    "event " + std::to_string(id.value) + " does not exist");
}

bool is_pending(const task_ptr& x) {
  return x && !x->done;
}

} // namespace

scheduler::scheduler(std::function<bool()> failed)
    : failed_{std::move(failed)} {
  streams_[legacy_stream] = {};
}

status scheduler::create_stream(stream_id id, bool non_blocking) {
  auto lock = std::lock_guard{mutex_};
  if (!id || !streams_.try_emplace(id, stream{non_blocking, {}}).second)
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "stream " + std::to_string(id.value) + " exists already");
  return {};
}

status scheduler::destroy_stream(stream_id id) {
  auto lock = std::lock_guard{mutex_};
  auto found = streams_.find(id);
  if (found == streams_.end() || id == legacy_stream)
    return no_stream(id);
  if (is_pending(found->second.last))
    orphans_.push_back(found->second.last);
  prune();
  streams_.erase(found);
  return {};
}

void scheduler::prune() {
  std::erase_if(orphans_, [](auto& x) { return !is_pending(x); });
}

bool scheduler::has_stream(stream_id id) {
  auto lock = std::lock_guard{mutex_};
  return streams_.contains(id);
}

bool scheduler::idle(stream_id id) {
  auto lock = std::lock_guard{mutex_};
  auto found = streams_.find(id);
  return found == streams_.end() || !is_pending(found->second.last);
}

status scheduler::create_event(event_id id, bool timing) {
  auto lock = std::lock_guard{mutex_};
  if (!id || !events_.try_emplace(id, event{timing, {}}).second)
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "event " + std::to_string(id.value) + " exists already");
  return {};
}

status scheduler::destroy_event(event_id id) {
  auto lock = std::lock_guard{mutex_};
  if (events_.erase(id) == 0)
    return no_event(id);
  return {};
}

void scheduler::depend(const task_ptr& what, const task_ptr& on) {
  if (!is_pending(on) || on == what)
    return;
  on->next.push_back(what);
  ++what->waits_for;
}

void scheduler::depend_on_all(const task_ptr& what) {
  for (auto& [id, s] : streams_)
    depend(what, s.last);
  for (auto& x : orphans_)
    depend(what, x);
  depend(what, fence_);
}

status scheduler::add_locked(stream_id id, const task_ptr& what,
                             bool in_stream) {
  auto found = streams_.find(id);
  if (found == streams_.end())
    return no_stream(id);
  auto& s = found->second;
  depend(what, fence_);
  depend(what, s.last);
  // As on a GPU, a wait for the legacy stream includes the blocking streams.
  if (id == legacy_stream) {
    for (auto& [other, x] : streams_)
      if (!x.non_blocking && other != id)
        depend(what, x.last);
    prune();
    for (auto& x : orphans_)
      depend(what, x);
  } else if (in_stream && !s.non_blocking) {
    depend(what, streams_[legacy_stream].last);
  }
  if (in_stream)
    s.last = what;
  if (in_stream && !channels_.empty()) {
    auto& last = channels_[id.value % channels_.size()].last;
    depend(what, last);
    last = what;
  }
  return {};
}

/// Waits, like a driver whose queue is full, until the stream's channel has
/// room for another task.
std::unique_lock<std::mutex> scheduler::lock_with_room(stream_id id) {
  auto lock = std::unique_lock{mutex_};
  if (!channels_.empty() && most_in_channel_ != 0)
    channel_has_room_.wait(lock, [this, id] {
      return frozen_ ||
             channels_[id.value % channels_.size()].pending < most_in_channel_;
    });
  return lock;
}

void scheduler::take_room(stream_id id, task& what) {
  if (channels_.empty())
    return;
  what.channel = id.value % channels_.size();
  ++channels_[*what.channel].pending;
}

void scheduler::enter(const task_ptr& what) {
  pending_[what.get()] = what;
}

status scheduler::add(stream_id id, task_ptr what) {
  {
    auto lock = lock_with_room(id);
    if (auto ok = add_locked(id, what, true); !ok)
      return ok;
    take_room(id, *what);
    enter(what);
    if (what->waits_for != 0)
      return {};
  }
  dispatch(std::move(what));
  return {};
}

void scheduler::after(std::optional<stream_id> id, task_ptr what) {
  {
    auto lock = std::lock_guard{mutex_};
    if (id) {
      // All work of a stream that does not exist is done.
      if (streams_.contains(*id))
        (void)add_locked(*id, what, false);
    } else {
      depend_on_all(what);
    }
    enter(what);
    if (what->waits_for != 0)
      return;
  }
  dispatch(std::move(what));
}

void scheduler::after_event(event_id id, task_ptr what) {
  {
    auto lock = std::lock_guard{mutex_};
    auto found = events_.find(id);
    if (found != events_.end() && is_elsewhere(found->second))
      await_elsewhere(what, found->second);
    else if (found != events_.end())
      depend(what, found->second.record);
    enter(what);
    if (what->waits_for != 0)
      return;
  }
  dispatch(std::move(what));
}

void scheduler::fence(task_ptr what, const std::vector<task_ptr>& others) {
  {
    auto lock = std::lock_guard{mutex_};
    depend(what, fence_);
    for (auto& x : others)
      depend(what, x);
    fence_ = what;
    enter(what);
    if (what->waits_for != 0)
      return;
  }
  dispatch(std::move(what));
}

status scheduler::record(event_id id, stream_id on) {
  auto what = std::make_shared<task>();
  what->always = true;
  {
    auto lock = std::lock_guard{mutex_};
    auto found = events_.find(id);
    if (found == events_.end())
      return no_event(id);
    if (auto ok = add_locked(on, what, true); !ok)
      return ok;
    if (found->second.shared)
      tick_off(found->second, what);
    found->second.record = what;
    enter(what);
    if (what->waits_for != 0)
      return {};
  }
  dispatch(std::move(what));
  return {};
}

status scheduler::wait(stream_id on, event_id id) {
  auto what = std::make_shared<task>();
  what->always = true;
  {
    auto lock = std::lock_guard{mutex_};
    auto found = events_.find(id);
    if (found == events_.end())
      return no_event(id);
    auto elsewhere = is_elsewhere(found->second);
    if (!elsewhere && !is_pending(found->second.record))
      return streams_.contains(on) ? status{} : status{no_stream(on)};
    auto record = found->second.record;
    if (auto ok = add_locked(on, what, true); !ok)
      return ok;
    if (elsewhere)
      await_elsewhere(what, found->second);
    else
      depend(what, record);
    enter(what);
    if (what->waits_for != 0)
      return {};
  }
  dispatch(std::move(what));
  return {};
}

result<bool> scheduler::query(event_id id) {
  auto lock = std::lock_guard{mutex_};
  auto found = events_.find(id);
  if (found == events_.end())
    return no_event(id);
  if (is_elsewhere(found->second))
    return false;
  return !is_pending(found->second.record);
}

result<float> scheduler::elapsed(event_id from, event_id to) {
  auto lock = std::lock_guard{mutex_};
  auto a = events_.find(from);
  auto b = events_.find(to);
  if (a == events_.end())
    return no_event(from);
  if (b == events_.end())
    return no_event(to);
  for (auto& [id, e] : {*a, *b})
    if (!e.timing || !e.record)
      return cuda_fault(
          CUDA_ERROR_INVALID_HANDLE,
          "event " + std::to_string(id.value) +
              (e.timing ? " was never recorded" : " has timing disabled"));
  if (is_pending(a->second.record) || is_pending(b->second.record))
    return cuda_fault(CUDA_ERROR_NOT_READY,
                      "the events have not completed yet");
  auto span = b->second.record->ended - a->second.record->ended;
  return std::chrono::duration<float, std::milli>{span}.count();
}

// -- events of several processes ----------------------------------------------

/// Lets the task mark the event's new record as done. It also does so where the
/// work is abandoned, so that other processes do not wait forever.
void scheduler::tick_off(event& of, const task_ptr& by) {
  of.number = of.shared->begin_record();
  by->abandon = [page = of.shared, number = of.number] { page->reach(number); };
  by->start = [done = by->abandon](auto finish) {
    done();
    finish();
  };
}

/// Tells whether another process made the latest record, and it is not done.
bool scheduler::is_elsewhere(const event& x) const {
  if (!x.shared)
    return false;
  auto latest = x.shared->recorded();
  return latest != x.number && !x.shared->reached(latest);
}

/// Lets the task begin its work when the record that is now the latest is done.
void scheduler::await_elsewhere(const task_ptr& what, const event& x) {
  what->start = [this, page = x.shared, latest = x.shared->recorded(),
                 then = std::move(what->start)](auto finish) {
    auto over = [this, page, latest] {
      return failed_() || page->reached(latest);
    };
    auto go_on = [then, finish] { then ? then(finish) : finish(); };
    over() ? go_on() : watch_(over, go_on);
  };
}

result<shared_object> scheduler::share(event_id id) {
  auto lock = std::lock_guard{mutex_};
  auto found = events_.find(id);
  if (found == events_.end())
    return no_event(id);
  auto& x = found->second;
  if (x.timing)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "event " + std::to_string(id.value) +
                          " has timing enabled and cannot be shared");
  if (x.shared)
    return x.shared->object();
  auto made = shared_event::create();
  if (!made)
    return made.why();
  x.shared = std::move(*made);
  if (x.record) {
    x.number = x.shared->begin_record();
    auto seen = std::make_shared<task>();
    seen->always = true;
    depend(seen, x.record);
    seen->start = [page = x.shared, number = x.number](auto finish) {
      page->reach(number);
      finish();
    };
    if (seen->waits_for != 0)
      enter(seen);
    else
      x.shared->reach(x.number);
  }
  return x.shared->object();
}

status scheduler::import(event_id id, const shared_object& from) {
  auto page = shared_event::open(from);
  if (!page)
    return page.why();
  if (auto ok = create_event(id, false); !ok)
    return ok;
  auto lock = std::lock_guard{mutex_};
  events_.at(id).shared = std::move(*page);
  return {};
}

void scheduler::dispatch(task_ptr first) {
  // A task that finishes at once must not nest another one on the stack.
  using entry = std::pair<std::shared_ptr<scheduler>, task_ptr>;
  thread_local std::deque<entry>* queue = nullptr;
  if (queue != nullptr) {
    queue->emplace_back(shared_from_this(), std::move(first));
    return;
  }
  auto mine = std::deque<entry>{};
  mine.emplace_back(shared_from_this(), std::move(first));
  queue = &mine;
  while (!mine.empty()) {
    auto [on, x] = std::move(mine.front());
    mine.pop_front();
    {
      auto lock = std::lock_guard{on->mutex_};
      if (on->frozen_)
        continue;
    }
    auto start = std::move(x->start);
    if (!start || (!x->always && on->failed_())) {
      if (start && x->abandon)
        x->abandon();
      on->finished(x);
      continue;
    }
    start([weak = on->weak_from_this(), x = x] {
      if (auto alive = weak.lock())
        alive->finished(x);
    });
  }
  queue = nullptr;
}

void scheduler::finished(const task_ptr& what) {
  auto ready = std::vector<task_ptr>{};
  // A stream keeps its last task, so the resources of `abandon` are freed now.
  auto over = std::function<void()>{};
  {
    auto lock = std::lock_guard{mutex_};
    if (what->done || frozen_)
      return;
    what->done = true;
    over = std::move(what->abandon);
    what->ended = std::chrono::steady_clock::now();
    pending_.erase(what.get());
    if (what->channel &&
        channels_[*what->channel].pending-- == most_in_channel_)
      channel_has_room_.notify_all();
    for (auto& x : what->next)
      if (--x->waits_for == 0)
        ready.push_back(x);
    what->next.clear();
  }
  for (auto& x : ready)
    dispatch(x);
}

void scheduler::freeze() {
  auto lock = std::lock_guard{mutex_};
  frozen_ = true;
  channel_has_room_.notify_all();
}

void scheduler::abandon_all() {
  auto left = std::vector<task_ptr>{};
  {
    auto lock = std::lock_guard{mutex_};
    frozen_ = true;
    for (auto& [raw, x] : pending_)
      left.push_back(x);
    pending_.clear();
    for (auto& x : left)
      x->next.clear();
    streams_.clear();
    events_.clear();
    orphans_.clear();
    fence_.reset();
  }
  for (auto& x : left) {
    if (x->abandon)
      x->abandon();
    x->start = nullptr;
  }
}

} // namespace vgpu::device::cpu
