// Streams and events, which order the work of a session.
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

/// Describes one piece of work and its dependencies.
struct task {
  using finish = std::function<void()>;
  /// Begins the work, and calls `finish` once when the work is done, at once or
  /// later, from any thread. A task without it does nothing.
  std::function<void(finish)> start;
  /// The scheduler calls this when the session ends before the task is done, in
  /// place of `start` if the task has not begun.
  std::function<void()> abandon;
  /// The task runs even after a fault.
  bool always = false;
  // The scheduler's mutex guards these members.
  unsigned waits_for = 0;
  std::vector<std::shared_ptr<task>> next;
  bool done = false;
  std::chrono::steady_clock::time_point ended;
  std::optional<std::size_t> channel;
};
/// Shares a task between the scheduler and its callers.
using task_ptr = std::shared_ptr<task>;

/// Runs small jobs in order on a thread of its own.
class job_thread {
public:
  /// Holds the functions that the thread calls between jobs. It calls `rest`
  /// when no job is left. The result is the time until which it waits for
  /// another job before it calls `leave`.
  struct pauses {
    std::function<std::optional<std::chrono::steady_clock::time_point>()> rest;
    std::function<void()> leave;
  };

  /// Starts the thread at this niceness.
  explicit job_thread(int nice, pauses between = {});
  job_thread(const job_thread&) = delete;
  job_thread& operator=(const job_thread&) = delete;
  /// Drops the jobs that have not begun.
  ~job_thread() { stop(); }
  /// Appends a job.
  void post(std::function<void()> job);
  /// Ends the thread after the current job.
  void stop();
  /// Starts no further jobs.
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

/// Orders tasks in a graph. The tasks of a stream follow one another; the
/// legacy stream and blocking streams wait for each other (CUDA driver API,
/// "Stream synchronization behavior"). A task starts on the thread that
/// finished the last task it waited for, or on the thread that adds it.
/// Thread-safe. It lives in a shared_ptr, so a late `finish` can tell that the
/// scheduler no longer exists.
class scheduler : public std::enable_shared_from_this<scheduler> {
public:
  /// Makes the legacy stream. `failed` tells whether tasks are to be skipped.
  explicit scheduler(std::function<bool()> failed);

  /// Calls its second argument once its first returns true: value_watch::add().
  using watcher =
      std::function<void(std::function<bool()>, std::function<void()>)>;
  /// Sets the watcher that awaits other processes' records. The caller does so
  /// before there are any.
  void watch_by(watcher by) { watch_ = std::move(by); }

  /// Lets streams share this many channels, each of which runs its tasks in
  /// order. A thread that adds a task to a channel with `most` tasks of work
  /// waits until it has fewer; 0: it never waits. 0 channels: each stream has
  /// its own. The caller does so before there are tasks.
  void share_channels(std::size_t count, std::size_t most) {
    channels_.resize(count);
    most_in_channel_ = most;
  }

  /// Creates a stream.
  status create_stream(stream_id id, bool non_blocking);
  /// Destroys a stream. Its tasks still run.
  status destroy_stream(stream_id id);
  /// Tells whether the stream exists.
  bool has_stream(stream_id id);
  /// Tells whether the stream's tasks are done.
  bool idle(stream_id id);

  /// Creates an event.
  status create_event(event_id id, bool timing);
  /// Destroys an event.
  status destroy_event(event_id id);
  /// Records an event in a stream.
  status record(event_id id, stream_id stream);
  /// Lets a stream wait for an event's latest record.
  status wait(stream_id stream, event_id id);
  /// Tells whether the event's latest record is done.
  result<bool> query(event_id id);
  /// Returns the milliseconds between two completed records.
  result<float> elapsed(event_id from, event_id to);

  /// Makes an event shareable, with its latest record.
  result<shared_object> share(event_id id);
  /// Creates an event from one that another process shares.
  status import(event_id id, const shared_object& from);

  /// Appends a task to a stream that exists.
  status add(stream_id stream, task_ptr what);
  /// Starts a task when all work that is now in the stream, or in any stream
  /// where none is given, is done. Later work does not wait for the task.
  void after(std::optional<stream_id> stream, task_ptr what);
  /// Starts a task when the event's latest record is done.
  void after_event(event_id id, task_ptr what);
  /// Starts a task when `others` are done. All later work waits for the task,
  /// so it must not wait for work that later work may end.
  void fence(task_ptr what, const std::vector<task_ptr>& others);

  /// Starts no further tasks.
  void freeze();
  /// Ends the session: abandons the tasks that are not done.
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
    std::uint64_t number = 0; // of that record, if shared
  };

  struct channel {
    task_ptr last;
    /// Counts the tasks that take room: as in a driver's queue, those of events
    /// do not.
    std::size_t pending = 0;
  };

  std::unique_lock<std::mutex> lock_with_room(stream_id id);
  void take_room(stream_id id, task& what);
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
  std::vector<channel> channels_;
  std::size_t most_in_channel_ = 0;
  std::condition_variable channel_has_room_;
  std::vector<task_ptr> orphans_; // last tasks of destroyed streams
  task_ptr fence_;
  std::unordered_map<task*, task_ptr> pending_;
  bool frozen_ = false;
};

} // namespace vgpu::device::cpu
