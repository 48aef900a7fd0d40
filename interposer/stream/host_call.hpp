// What the program itself does in a stream's turn: its functions, and what
// streams write into its memory or wait for there.
#pragma once

#include "interposer/session/own_thread.hpp"
#include "interposer/session/reply_slots.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/base/awaited_value.hpp"

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace vgpu::interposer {

/// What this library does by itself when a stream has come to it.
class turn_taker {
public:
  virtual ~turn_taker() = default;
  /// On the thread of the host functions; `status` is what the stream ended in.
  /// The stream goes on meanwhile.
  virtual void take_turn(CUresult status) noexcept = 0;
};

/// Runs host functions, in the order in which the worker says that their turn
/// has come, on one thread that is started with the first of them. Thread-safe.
///
/// Words of host memory are polled and written here too, not by the device:
/// a replay then does neither a second time, and a worker on another host needs
/// no sight of them.
class host_caller {
public:
  /// cuLaunchHostFunc.
  CUresult add(stream& in, CUhostFn function, void* data);
  /// cuStreamAddCallback: also called when the stream ends in an error.
  CUresult add(stream& in, CUstream handle, CUstreamCallback function,
               void* data);

  /// The stream waits until a word of the program's memory is as it must be.
  CUresult add_host_wait(stream& in, const awaited_value& what);
  /// The same with a word of device memory, which the device polls.
  /// `writes`: what comes before that may write to the program's memory.
  CUresult add_device_wait(stream& in, const awaited_value& what,
                           bool writes = false);
  /// `who` has its turn when the stream has come there. The slot is the
  /// caller's, and free again then.
  CUresult add_turn(stream& in, slot_index slot,
                    std::shared_ptr<turn_taker> who);
  /// The stream writes `what.value` into a word of the program's memory.
  CUresult add_store(stream& in, const awaited_value& what);
  /// Waits for words in this range end: it is memory no longer.
  void end_waits_in(std::uint64_t at, std::uint64_t bytes);

  /// Waits until nothing is pending that may write there. At once on the thread
  /// that runs it.
  void wait_for_writers(std::uint64_t at, std::uint64_t bytes);

  /// Appends what a driver may do only when no stream is under way: it waits
  /// for all of them when it loads or drops code, at a kernel's first launch
  /// too, and when it makes a stream for which it needs another queue. A worker
  /// that is held up by that would not read on to where the end of a function
  /// is told; so this waits until no function is pending, unless none has ended
  /// for ten seconds: one may wait for the calling thread. Streams that wait
  /// for a value hold up a driver just so. At once on the thread that runs the
  /// functions.
  template <class Append>
  auto append_alone(const Append& append) {
    std::unique_lock alone{appending_, std::defer_lock};
    if (!runs_host_functions()) {
      alone.lock();
      wait_for_functions();
    }
    return append();
  }

  /// Something was appended to a stream. Behind what is pending in it there is
  /// room for so much work and no more: a driver's queue is finite, and a
  /// worker that is held up by it would not read on to where the end is told.
  /// Waits like the driver when its queue is full.
  ///
  /// A GPU has fewer queues than a program may have streams, so that work may
  /// stand behind a function that it has nothing to do with. So there is as
  /// much room behind the first pending function for all streams in sum,
  /// unless none has ended for ten seconds: one may wait for the calling
  /// thread.
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
  };
  /// One that is not done: what of the program's memory it may write, [begin,
  /// end), and whether it only waits for a value.
  struct pending_call {
    std::uint64_t begin = 0, end = 0;
    bool only_waits = false;
    bool in_the_way = false;    // behind it there is only so much room
    bool given_up = false;      // nobody waits for it any more
    std::uint64_t appended = 0; // before it, as appended_ counts
  };
  enum class found : std::uint8_t {
    nothing,
    waits, // some wait for a word, which is to be polled
    one,
  };

  template <class Call>
  CUresult enqueue(stream& in, entry what, const Call& call);
  void start();
  [[noreturn]] void serve();
  void hold_back(stream& in);
  void wait_for_room();
  void wait_for_functions();
  /// Waits while something is so, or until none has ended for ten seconds: then
  /// those that are pending are waited for no more.
  template <class Condition>
  void wait_for_ends(std::unique_lock<std::mutex>& guard, const Condition& so);
  /// Precondition: the lock is held.
  void note_room();
  /// Precondition: the lock is held.
  bool is_held(const stream& x) const;
  template <class Condition>
  void wait_while(std::unique_lock<std::mutex>& guard, const Condition& so);
  /// One that may run now, taken out of the list of those that wait.
  found next(entry& out, CUresult& status);
  /// Whether its turn has come, or its stream has ended in an error.
  bool has_turn(const entry& x, CUresult& status);
  void run(const entry& x, CUresult status);
  void finish(const entry& x);

  /// Shared by who appends one. Before the other mutex.
  std::shared_mutex appending_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable ended_;
  std::vector<entry> waiting_;
  /// All that is not done, by call number.
  std::map<std::uint64_t, pending_call> pending_calls_;
  bool running_ = false; // one, which may append more
  std::uint64_t ended_calls_ = 0;
  std::atomic<std::size_t> pending_{0};
  /// Work that was appended while something was pending, and up to what number
  /// of it there is room.
  std::atomic<std::uint64_t> appended_{0};
  std::atomic<std::uint64_t> room_until_{~std::uint64_t{0}};
  bool started_ = false;
};

/// Gives the process's own. Precondition: the driver's state is made.
host_caller& host_calls() noexcept;

} // namespace vgpu::interposer
