// Work of a stream that the program's own process does: its host functions, and
// the words of its memory that streams write or wait for.
#pragma once

#include "interposer/session/own_thread.hpp"
#include "interposer/session/reply_slots.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/base/awaited_value.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace vgpu::interposer {

/// Does a piece of work of this library itself when a stream reaches it.
class turn_taker {
public:
  virtual ~turn_taker() = default;
  /// Runs on the thread of the host functions, while the stream continues.
  /// `status` is the error that the stream ended in, or CUDA_SUCCESS.
  virtual void take_turn(CUresult status) noexcept = 0;
};

/// Represents work of this library that a stream waits for, in steps. The work
/// goes into another stream, because its own stream stands still until the last
/// step.
class stream_task {
public:
  virtual ~stream_task() = default;
  /// Takes a step on the thread of the host functions. The first step comes
  /// when the stream reaches the task. A step may append work to another
  /// stream, and returns that stream; the next step comes when the work is
  /// done. After the last step, which returns null, the task's own stream
  /// continues. `status` is the error that the stream ended in, or
  /// CUDA_SUCCESS.
  virtual stream* step(CUresult status) noexcept = 0;
  /// Is called on the same thread when the task's own stream has been let
  /// continue.
  virtual void continued() noexcept {}
};

/// Runs host functions on one thread, in the order in which the worker reports
/// that streams reached them. A second thread does the library's own work, so
/// that a function may wait for work of other streams. The first call of each
/// kind starts its thread. Thread-safe.
///
/// The interposer, not the device, also polls and writes words of host memory.
/// So a replay repeats neither, and a worker on another host needs no access to
/// these words.
class host_caller {
public:
  /// Serves cuLaunchHostFunc.
  CUresult add(stream& in, CUhostFn function, void* data);
  /// Serves cuStreamAddCallback. The callback also runs when the stream ends in
  /// an error.
  CUresult add(stream& in, CUstream handle, CUstreamCallback function,
               void* data);

  /// Makes the stream wait until a word of the program's memory meets the
  /// condition.
  CUresult add_host_wait(stream& in, const awaited_value& what);
  /// Makes the stream wait for a word of device memory, which the device polls.
  /// With `writes`, earlier work may write to the program's memory.
  CUresult add_device_wait(stream& in, const awaited_value& what,
                           bool writes = false);
  /// Calls `who` when the stream reaches this point. The caller owns the slot,
  /// and may then use it again.
  CUresult add_turn(stream& in, slot_index slot,
                    std::shared_ptr<turn_taker> who);
  /// Makes the stream write `what.value` into a word of the program's memory.
  CUresult add_store(stream& in, const awaited_value& what);
  /// Makes the stream wait for a task, which may write to [begin, end) of the
  /// program's memory.
  CUresult add_task(stream& in, std::shared_ptr<stream_task> what,
                    std::uint64_t begin, std::uint64_t end);
  /// Ends all waits for words in this range, because its memory is about to be
  /// freed.
  void end_waits_in(std::uint64_t at, std::uint64_t bytes);

  /// Calls `attempt` until it returns true, again whenever a pending call has
  /// ended, as a driver waits for room in its queue. Returns false where that
  /// would be in vain: none is pending, the calling thread runs the functions,
  /// or none has ended for ten seconds, because one of them may wait for the
  /// calling thread.
  template <class Attempt>
  bool retry_at_ends(const Attempt& attempt) {
    for (;;) {
      auto before = ended();
      if (attempt())
        return true;
      if (!wait_for_more_than(before))
        return false;
    }
  }

  /// Tells whether the program's memory in this range may change before the
  /// pending calls are done: one of them may write there, or waits for the
  /// program, which may write there first.
  bool may_change(std::uint64_t at, std::uint64_t bytes);

  /// Appends work that makes a real driver wait for all streams, such as
  /// loading or unloading code, a kernel's first launch, or making a stream
  /// that needs another queue. A worker that waits there does not read the log
  /// further, and so never learns that a host function ended. Therefore this
  /// call first waits until no function is pending. It gives up when none has
  /// ended for ten seconds, because a function may wait for the calling thread.
  /// It does not wait for pending waits for a value, which block a real driver
  /// in the same way. On the thread that runs the functions it never waits.
  template <class Append>
  auto append_alone(const Append& append) {
    std::unique_lock alone{appending_, std::defer_lock};
    if (!runs_host_functions()) {
      alone.lock();
      wait_for_functions();
    }
    return append();
  }

  /// Notes that work was appended to a stream, and waits like a driver whose
  /// queue is full. A driver's queue is finite, and a worker that waits for
  /// room in it does not read the log up to the record that ends a host
  /// function. So only a bounded amount of work may follow a pending call in
  /// its stream.
  ///
  /// A GPU has fewer queues than a program may have streams, so work of other
  /// streams may be queued behind the function too. The same bound therefore
  /// holds for the work of all streams after the first pending function. It is
  /// lifted when no function has ended for ten seconds, because a function may
  /// wait for the calling thread.
  void work_appended(stream& in) {
    if (pending_.load(std::memory_order_relaxed) != 0)
      hold_back(in);
  }

private:
  enum class kind : std::uint8_t {
    function,
    callback,
    host_wait,
    device_wait,
    store,
    turn,
    task,
    task_step,
  };
  struct entry {
    kind what = kind::function;
    ticket asked{};
    std::uint8_t device = 0;
    CUhostFn function = nullptr;
    CUstreamCallback callback = nullptr;
    CUstream handle = nullptr;
    void* data = nullptr;
    awaited_value word{};
    bool writes = false;
    std::shared_ptr<turn_taker> who{};
    std::shared_ptr<stream_task> task{};
    // What a task may write
    std::uint64_t begin = 0, end = 0;
    // For a later step: the call of the whole task, and the step's stream
    ticket whole{};
    stream_id side{};
  };
  /// Describes a call that is not done. It may write to [begin, end) of the
  /// program's memory.
  struct pending_call {
    std::uint64_t begin = 0, end = 0;
    /// Tells whether the call only waits for a value.
    bool only_waits = false;
    // Whether the amount of work after the call is bounded
    bool in_the_way = false;
    // Whether all threads have stopped waiting for the call
    bool given_up = false;
    // The value of appended_ before the call
    std::uint64_t appended = 0;
  };
  enum class found : std::uint8_t {
    nothing,
    waits, // some calls wait for words that need polling
    one,
  };

  template <class Call>
  CUresult enqueue(stream& in, entry what, const Call& call);
  /// Names a thread.
  enum class server : std::uint8_t { functions, own_work };
  static server server_of(kind x) noexcept;
  void start(server which);
  [[noreturn]] void serve(server which);
  void hold_back(stream& in);
  /// Returns how many calls have ended.
  std::uint64_t ended();
  /// Waits until more than `before` calls have ended. Returns false where
  /// retry_at_ends() would wait in vain.
  bool wait_for_more_than(std::uint64_t before);
  void wait_for_room();
  void wait_for_functions();
  /// Waits while the condition holds. When no function has ended for ten
  /// seconds, gives up the pending ones and returns.
  template <class Condition>
  void wait_for_ends(std::unique_lock<std::mutex>& guard, const Condition& so);
  /// Updates room_until_. Precondition: the lock is held.
  void note_room();
  /// Tells whether the stream must wait for room. Precondition: the lock is
  /// held.
  bool is_held(const stream& x) const;
  template <class Condition>
  void wait_while(std::unique_lock<std::mutex>& guard, const Condition& so);
  /// Takes a call that may run now out of waiting_.
  found next(server which, entry& out, CUresult& status);
  /// Tells whether a call waits for this thread. Precondition: the lock is
  /// held.
  bool has_work(server which) const;
  /// Notes whether the thread runs a call. Precondition: the lock is held.
  bool& runs(server which) noexcept {
    return running_[static_cast<std::size_t>(which)];
  }
  /// Tells whether the call's turn has come, or its stream has ended in an
  /// error.
  bool has_turn(const entry& x, CUresult& status);
  void run(const entry& x, CUresult status);
  void take_step(const entry& x, CUresult status);
  /// Returns the slot of a call that is done, and wakes the threads that wait.
  void end(const ticket& x);
  void finish(call_number x);

  /// Is shared by threads that append calls. It is locked before the other
  /// mutex.
  std::shared_mutex appending_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable ended_;
  std::vector<entry> waiting_;
  /// Holds all calls that are not done, by call number.
  std::map<std::uint64_t, pending_call> pending_calls_;
  // Whether each thread runs a call, which may append further calls
  std::array<bool, 2> running_{};
  std::uint64_t ended_calls_ = 0;
  std::atomic<std::size_t> pending_{0};
  /// Counts the work that was appended while a call was pending.
  std::atomic<std::uint64_t> appended_{0};
  /// Holds the value that appended_ may reach before threads must wait.
  std::atomic<std::uint64_t> room_until_{~std::uint64_t{0}};
  std::array<bool, 2> started_{};
};

/// Returns the process's host caller. Precondition: the driver's state is made.
host_caller& host_calls() noexcept;

} // namespace vgpu::interposer
