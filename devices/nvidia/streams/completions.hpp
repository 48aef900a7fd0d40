// Tells when work of the real device is done.
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

/// An event of the driver's; back in its pool when nobody needs it any more.
using event_ref = std::shared_ptr<CUevent_st>;

/// Events to be used again: making one costs more than recording it.
/// Thread-safe.
class event_pool {
public:
  explicit event_pool(driver_ptr api);

  /// An event that is nobody else's. The calling thread has the context.
  result<event_ref> take(bool timing);

private:
  struct free_events {
    std::mutex mutex;
    std::vector<CUevent> of[2]; // by timing
  };
  driver_ptr api_;
  std::shared_ptr<free_events> free_ = std::make_shared<free_events>();
};

/// What is waited for in one stream. Work of a device is numbered; a stream's
/// is done in the order of its numbers.
struct lane {
  /// What comes behind the work that is waited for: an event, or a value that
  /// the stream writes into the lane's word.
  struct mark {
    event_ref event;
    std::uint32_t value = 0;
  };
  struct entry {
    std::uint64_t number = 0; // all of the stream's work up to this
    mark end;
    completion tell;
    /// Of who spun first, and in vain: since when.
    std::optional<busy_poll::clock::time_point> spun_since{};
    std::uint64_t added = 0; // of those with one number, which came first
    bool cleanup = false;    // completion_mode::cleanup
  };
  explicit lane(word_ref written) : word(std::move(written)) {}

  /// The stream's work up to this number is known to be done. Thread-safe.
  std::atomic<std::uint64_t> done{0};
  /// Written by the stream, values in order.
  const word_ref word;
  /// By number; guarded by the completions that serve the lane.
  std::deque<entry> waiting;

  /// Notes that all up to `number` is done.
  void raise(std::uint64_t number) noexcept;
  /// Whether the stream has written this value, or one that comes after it.
  bool has_written(std::uint32_t value) const noexcept {
    auto now = word->value.load(std::memory_order_acquire);
    return static_cast<std::int32_t>(now - value) >= 0;
  }
};

/// How the end of work is found.
enum class completion_mode {
  /// By the completions' thread.
  polled,
  /// Where nobody else waits the caller spins first, for some microseconds, as
  /// long as that lately was enough. What is done by then it tells itself,
  /// which
  /// is sooner than if two threads hand it to and fro.
  spin_first,
  /// Polled, and of no interest to the program: nobody has to come behind it.
  cleanup
};

/// A thread that looks whether what is waited for is done, and tells who
/// waits, in the order of the work: who hears that something is done may take
/// it that all who waited for what came before have been told. It looks all the
/// time for the first 100 us, then ever more seldom, so that what it adds to a
/// wait stays a small part of it; with nothing to wait for it sleeps.
///
/// It looks at words that streams write, which costs neither side a lock; and
/// now and then it asks the driver, which is who tells of errors. The driver's
/// own callbacks (cuLaunchHostFunc) would come later, hold up the stream
/// meanwhile, and not come at all after an error.
class completions {
public:
  struct hooks {
    /// How work ended, and the event behind it if there is one; called before
    /// those who wait are told.
    std::function<void(CUevent, CUresult)> settled;
    /// Those who waited have been told.
    std::function<void()> told;
  };

  completions(driver_ptr api, CUcontext context, hooks with);
  /// Tells all who still wait CUDA_ERROR_CONTEXT_IS_DESTROYED.
  ~completions();

  /// `what.tell` is called when its event is done: by the thread, or in mode
  /// spin_first by the caller. Thread-safe.
  void add(const std::shared_ptr<lane>& in, lane::entry what,
           completion_mode mode = completion_mode::polled);
  /// Returns when all who wait for work up to `number`, in whatever stream,
  /// that is done have been told, but for cleanups: before that nobody else
  /// should be. At once where nothing ends any more, and on the thread that
  /// tells.
  void wait_told(std::uint64_t number);

  /// All waiting, now and later, ends in this error. Thread-safe.
  void fail(CUresult why);
  /// Nothing ends any more. Thread-safe.
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
  void look_for_errors();
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
  std::condition_variable all_told_;
  std::vector<std::shared_ptr<lane>> lanes_; // that are waited for
  std::uint64_t added_ = 0;                  // entries, ever
  std::uint64_t telling_ = nobody;           // the number of who is being told
  bool asleep_ = false;
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::size_t> waiting_{0}; // and not told
  busy_poll spins_;
  std::atomic<std::uint32_t> failed_{0};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_; // last: it uses all of the above
};

} // namespace vgpu::device::nvidia
