// Streams and events: in which order the work of a session is done.
#pragma once

#include "devices/cpu/run/shared_event.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

namespace vgpu::device::cpu {

/// One piece of work and what must be done before it.
struct task {
  using finish = std::function<void()>;
  /// Begins the work, which calls `finish` once when it is done, at once or
  /// later, from any thread. Without it there is nothing to do.
  std::function<void(finish)> start;
  /// Called instead when the session ends before.
  std::function<void()> abandon;
  /// Runs even after a fault.
  bool always = false;
  // Guarded by the scheduler's mutex:
  unsigned waits_for = 0;
  std::vector<std::shared_ptr<task>> next;
  bool done = false;
  std::chrono::steady_clock::time_point ended;
};
using task_ptr = std::shared_ptr<task>;

/// A thread that does small jobs in order.
class job_thread {
public:
  /// What it calls between jobs, if any: `rest` when there is none; that says
  /// until when to wait for one before `leave` is called.
  struct pauses {
    std::function<std::optional<std::chrono::steady_clock::time_point>()> rest;
    std::function<void()> leave;
  };

  explicit job_thread(int nice, pauses between = {});
  job_thread(const job_thread&) = delete;
  job_thread& operator=(const job_thread&) = delete;
  /// Jobs that have not begun are dropped.
  ~job_thread() { stop(); }
  void post(std::function<void()> job);
  void stop();
  /// Begins no more jobs.
  void freeze();

private:
  void run(int nice);
  bool has_job() const { return stopping_ || (!frozen_ && !jobs_.empty()); }

  pauses between_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  bool frozen_ = false;
  std::thread thread_;
};

/// A graph of tasks. Each stream's tasks follow one another; the legacy stream
/// and blocking streams wait for each other (CUDA driver API, "Stream
/// synchronization behavior"). A task is started by the thread that finished
/// the last one it waited for, or by the one that adds it. Thread-safe. Lives
/// in a shared_ptr: whoever calls a `finish` late finds it gone.
class scheduler : public std::enable_shared_from_this<scheduler> {
public:
  /// `failed` tells whether work is to be skipped.
  explicit scheduler(std::function<bool()> failed);

  /// Calls the second when the first says true; value_watch::add().
  using watcher =
      std::function<void(std::function<bool()>, std::function<void()>)>;
  /// By whom other processes' records are awaited; before any is.
  void watch_by(watcher by) { watch_ = std::move(by); }

  status create_stream(stream_id id, bool non_blocking);
  status destroy_stream(stream_id id);
  bool has_stream(stream_id id);
  bool idle(stream_id id);

  status create_event(event_id id, bool timing);
  status destroy_event(event_id id);
  status record(event_id id, stream_id stream);
  status wait(stream_id stream, event_id id);
  result<bool> query(event_id id);
  result<float> elapsed(event_id from, event_id to);

  /// The event is several processes' from now on, and its latest record too.
  result<shared_object> share(event_id id);
  /// One that is another process's.
  status import(event_id id, const shared_object& from);

  /// The stream must exist.
  status add(stream_id stream, task_ptr what);
  /// Starts when all that is now in the stream, or everywhere, is done; later
  /// work does not wait for it.
  void after(std::optional<stream_id> stream, task_ptr what);
  void after_event(event_id id, task_ptr what);
  /// As after all streams and after `others`; all later work waits for it.
  void fence(task_ptr what, const std::vector<task_ptr>& others);

  /// Starts nothing any more.
  void freeze();
  /// Ends: tasks that are not done are abandoned.
  void abandon_all();

private:
  struct stream {
    bool non_blocking = false;
    task_ptr last;
  };
  struct event {
    bool timing = true;
    task_ptr record{}; // the latest of this process
    std::shared_ptr<shared_event> shared{};
    std::uint64_t number = 0; // of that record, where the event is shared
  };

  status add_locked(stream_id id, const task_ptr& what, bool in_stream);
  void depend(const task_ptr& what, const task_ptr& on);
  void depend_on_all(const task_ptr& what);
  void tick_off(event& of, const task_ptr& by);
  bool is_elsewhere(const event& x) const;
  void await_elsewhere(const task_ptr& what, const event& x);
  void enter(const task_ptr& what);
  void dispatch(task_ptr first);
  void finished(const task_ptr& what);
  void prune();

  std::function<bool()> failed_;
  watcher watch_;
  std::mutex mutex_;
  std::unordered_map<stream_id, stream> streams_;
  std::unordered_map<event_id, event> events_;
  std::vector<task_ptr> orphans_; // last tasks of destroyed streams
  task_ptr fence_;
  std::unordered_map<task*, task_ptr> pending_;
  bool frozen_ = false;
};

} // namespace vgpu::device::cpu
