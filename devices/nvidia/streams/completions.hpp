// Notices when work of an NVIDIA GPU is done.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/streams/words.hpp"
#include "schema/base/busy_poll.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace vgpu::device::nvidia {

/// Shares an event of the driver, which returns to its pool with its last
/// owner.
using event_ref = std::shared_ptr<CUevent_st>;

/// Keeps events for reuse, because creating an event costs more than recording
/// it. Thread-safe.
class event_pool {
public:
  explicit event_pool(driver_ptr api);

  /// Returns an event that is not in use. The calling thread has the context
  /// current.
  result<event_ref> take(bool timing);

private:
  struct free_events {
    std::mutex mutex;
    std::vector<CUevent> of[2]; // indexed by timing
  };
  driver_ptr api_;
  std::shared_ptr<free_events> free_ = std::make_shared<free_events>();
};

/// Holds the entries that wait for work of one stream. All work of a device is
/// numbered, and the work of a stream is done in the order of its numbers.
struct lane {
  /// Says what the stream does right after the work: it records an event, or
  /// writes a value into the lane's word.
  struct mark {
    event_ref event;
    std::uint32_t value = 0;
  };
  struct entry {
    std::uint64_t number = 0; // covers all of the stream's work up to this
    mark end;
    completion tell;
    /// The time since which the caller has busy-polled in vain, if it has.
    std::optional<busy_poll::clock::time_point> spun_since{};
    std::uint64_t added = 0; // orders entries of the same number
    bool cleanup = false;    // completion_mode::cleanup
  };
  explicit lane(word_ref written) : word(std::move(written)) {}

  /// All work of the stream up to this number is known to be done. Thread-safe.
  std::atomic<std::uint64_t> done{0};
  /// The stream writes its values into this word, in order.
  const word_ref word;
  /// Holds the entries by number. The completions that serve the lane guard it.
  std::deque<entry> waiting;

  /// Notes that all work up to `number` is done.
  void raise(std::uint64_t number) noexcept;
  /// Tells whether the stream has written this value, or a later one.
  bool has_written(std::uint32_t value) const noexcept {
    auto now = word->value.load(std::memory_order_acquire);
    return static_cast<std::int32_t>(now - value) >= 0;
  }
};

/// Says how the end of work is noticed.
enum class completion_mode {
  /// The thread of the completions polls for it.
  polled,
  /// The caller busy-polls first, for some microseconds, if no other work waits
  /// and recent busy-polls were long enough. It then runs the completion
  /// itself, which is quicker than handing over to another thread and back.
  spin_first,
  /// The thread polls for it. The program does not see this completion, so
  /// nothing needs to be ordered after it.
  cleanup
};

/// Runs a thread that polls for the end of work and runs completions in the
/// order of the work: when a completion runs, all completions of earlier work
/// have run. The thread polls continuously for the first 100 us, then ever less
/// often, so that it adds only a small part to a wait. It sleeps while there is
/// nothing to wait for.
///
/// It polls words that streams write, which takes no lock on either side, and
/// from time to time asks the driver, which reports errors. Callbacks of the
/// driver (cuLaunchHostFunc) would come later, hold up the stream meanwhile,
/// and not come at all after an error.
class completions {
public:
  /// Holds the functions that the completions call.
  struct hooks {
    /// Runs before the completions of finished work. It gets the event after
    /// the work, if there is one, and how the work ended.
    std::function<void(CUevent, CUresult)> settled;
    /// Runs after the completions of finished work.
    std::function<void()> told;
  };

  completions(driver_ptr api, CUcontext context, hooks with);
  /// Runs all remaining completions with CUDA_ERROR_CONTEXT_IS_DESTROYED.
  ~completions();

  /// Calls `what.tell` when the work is done: on the thread, or in mode
  /// spin_first possibly on the caller. Thread-safe.
  void add(const std::shared_ptr<lane>& in, lane::entry what,
           completion_mode mode = completion_mode::polled);
  /// Blocks until all completions that are due, for work up to `number` in all
  /// streams, have run, except for cleanups. A caller that reports such work as
  /// done calls this first. Returns at once after freeze(), and on the thread
  /// that runs completions.
  void wait_told(std::uint64_t number);

  /// Ends all waits, present and future, with this error. Thread-safe.
  void fail(CUresult why);
  /// Stops running completions permanently. Thread-safe.
  void freeze();

private:
  using clock = busy_poll::clock;
  struct head {
    std::shared_ptr<lane> of;
    lane::mark end;
    std::uint64_t number;
    std::uint64_t added = 0;
  };
  static constexpr auto nobody = ~std::uint64_t{0};

  void run();
  void check_for_errors();
  CUresult outcome_of(const head& x) const;
  bool outdated(std::uint64_t version) const noexcept;
  void collect(std::vector<head>& into, std::uint64_t& version);
  bool spin_for(const std::shared_ptr<lane>& in, const lane::entry& what);
  bool owes(std::uint64_t number) const;
  bool settle_first(const std::vector<head>& heads);
  void settle(const head& x, CUresult outcome);
  bool rest(bool nothing, clock::time_point since, std::uint64_t version);
  void changed(bool must_wake);
  std::optional<lane::entry> take_done(const head& x);

  driver_ptr api_;
  CUcontext context_;
  hooks hooks_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable all_reported_;
  std::vector<std::shared_ptr<lane>> lanes_; // the lanes that have waits
  std::uint64_t added_ = 0;                  // entries so far
  std::uint64_t telling_ = nobody;           // the number whose completion runs
  bool asleep_ = false;
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::size_t> waiting_{0}; // entries not run yet
  busy_poll spins_;
  std::atomic<std::uint32_t> failed_{0};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_; // the last member, because it uses the others
};

} // namespace vgpu::device::nvidia
