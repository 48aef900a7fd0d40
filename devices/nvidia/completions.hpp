// Tells when work of the real device is done.
#pragma once

#include "devices/device.hpp"
#include "devices/nvidia/driver.hpp"

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
  struct entry {
    std::uint64_t number = 0; // all of the stream's work up to this
    event_ref event;
    completion tell;
  };
  /// The stream's work up to this number is known to be done. Thread-safe.
  std::atomic<std::uint64_t> done{0};
  /// By number; guarded by the completions that serve the lane.
  std::deque<entry> waiting;

  /// Notes that all up to `number` is done.
  void raise(std::uint64_t number) noexcept;
};

/// A thread that looks at events and tells who waits for them. It looks all
/// the time for the first 100 us, then ever more seldom, so that what it adds
/// to a wait stays a small part of it; with nothing to wait for it sleeps.
///
/// The driver's own callbacks (cuLaunchHostFunc) would come later, hold up the
/// stream meanwhile, and not come at all after an error.
class completions {
public:
  struct hooks {
    /// How an event ended; called before those who wait are told.
    std::function<void(CUevent, CUresult)> settled;
  };

  completions(driver_ptr api, CUcontext context, hooks with);
  /// Tells all who still wait CUDA_ERROR_CONTEXT_IS_DESTROYED.
  ~completions();

  /// `what.tell` is called when its event is done. Thread-safe.
  void add(const std::shared_ptr<lane>& in, lane::entry what);

  /// All waiting, now and later, ends in this error. Thread-safe.
  void fail(CUresult why);
  /// Nothing ends any more. Thread-safe.
  void freeze();

private:
  using clock = std::chrono::steady_clock;
  struct head {
    std::shared_ptr<lane> of;
    event_ref event;
    std::uint64_t number;
  };

  void run();
  bool outdated(std::uint64_t version) const noexcept;
  void collect(std::vector<head>& into, std::uint64_t& version);
  bool settle(const head& x);
  void rest(bool nothing, clock::time_point since, std::uint64_t version);
  void changed(bool must_wake);
  std::optional<lane::entry> take_done(const head& x);

  driver_ptr api_;
  CUcontext context_;
  hooks hooks_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<lane>> lanes_; // that are waited for
  bool asleep_ = false;
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint32_t> failed_{0};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_; // last: it uses all of the above
};

} // namespace vgpu::device::nvidia
