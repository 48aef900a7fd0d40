// The working time of a device's threads, and the governor that lets them run.
#pragma once

#include "devices/interface/governor.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <ctime>
#include <pthread.h>

namespace vgpu::device::cpu {

/// Measures the time in which at least one thread works, and the processor time
/// of all threads, both up to the present. Processor time is measured because a
/// busy host lets threads wait. Thread-safe.
class busy_time {
  using clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

public:
  /// Represents one thread of the device. Only that thread uses it.
  class presence {
  public:
    explicit presence(busy_time& of) : of_(of) {}
    ~presence() {
      leave();
      if (cpu_)
        of_.forget(*this);
    }
    presence(const presence&) = delete;
    presence& operator=(const presence&) = delete;

    /// Tells whether the thread is working.
    bool is_here() const { return here_; }

    /// Begins working. Blocks until the governor lets the thread run.
    void enter() {
      if (!cpu_)
        introduce();
      auto* by = of_.governor_.get();
      if (!here_ && !governed_ && by != nullptr && by->governs()) {
        governed_ = by->begin() || by->wait();
        note_asked();
      }
      if (!here_)
        come();
      stay();
    }
    /// Asks the governor whether the thread may continue, and blocks until it
    /// may. The thread calls this from time to time while it works, at least
    /// whenever is_wanted_elsewhere().
    void stay() {
      auto* by = of_.governor_.get();
      if (by == nullptr || (!governed_ && !by->governs()))
        return;
      auto now = clock::now();
      if (now < check_at_ && !by->hurries())
        return;
      if (governed_ ? by->go_on(since_charged()) : by->begin()) {
        governed_ = true;
      } else {
        go();
        governed_ = by->wait();
        come();
      }
      note_asked();
    }
    /// Tells whether another thread is to run in its place.
    bool is_wanted_elsewhere() const {
      return governed_ && of_.governor_->hurries();
    }
    /// Pauses, because the thread has no work at the moment. A governed thread
    /// may then begin again without asking until it calls leave(). With `keeps`
    /// its place is reserved from now on for longest_rest; otherwise an earlier
    /// reservation stays as it is.
    void rest(bool keeps) {
      if (!here_)
        return;
      go();
      if (keeps)
        rests_until_ = clock::now() + longest_rest;
    }
    /// Polls for new work for about as long as a wake-up takes, and tells
    /// whether work came. Does so only for a governed thread: its place is
    /// reserved, and no other thread would use the processor. This time does
    /// not count as work.
    template <class F>
    bool busy_poll(F comes) {
      if (!governed_ || !of_.governor_->governs())
        return false;
      auto before = processor_time();
      auto until = clock::now() + longest_busy_poll;
      auto out = comes();
      for (; !out && clock::now() < until; out = comes())
        // Programs, and the processes that serve them, need processors too.
        std::this_thread::yield();
      busy_polled_ = busy_polled_.load() + (processor_time() - before);
      return out;
    }
    /// Returns the time until which the thread should wait for work before it
    /// calls leave(), or nothing where it need not call it.
    std::optional<clock::time_point> rests_until() const {
      return governed_ ? std::optional{rests_until_} : std::nullopt;
    }
    /// Ends working, and returns the thread's place to the governor.
    void leave() {
      rest(false);
      if (std::exchange(governed_, false))
        of_.governor_->end(since_charged());
    }

  private:
    friend busy_time;
    static constexpr auto check_every = std::chrono::milliseconds{1};
    /// Waking another thread for less time is not worth it: the threads of a
    /// kernel end at different times, and a thread that replaced the first
    /// would get in the way of the next kernel.
    static constexpr auto longest_rest = std::chrono::microseconds{500};
    static constexpr auto longest_busy_poll = std::chrono::microseconds{50};

    void introduce() {
      ::pthread_getcpuclockid(::pthread_self(), &cpu_.emplace());
      before_ = spent();
      of_.remember(*this);
    }
    nanoseconds processor_time() const {
      timespec x{};
      if (::clock_gettime(*cpu_, &x) != 0)
        return last_.load() + busy_polled_.load(); // the thread has ended
      return std::chrono::seconds{x.tv_sec} + nanoseconds{x.tv_nsec};
    }
    /// Returns the part of the thread's processor time that counts as work.
    nanoseconds spent() const { return processor_time() - busy_polled_.load(); }
    nanoseconds since_charged() const { return spent() - charged_; }
    void note_asked() {
      charged_ = spent();
      check_at_ = clock::now() + check_every;
    }
    void come() {
      here_ = true;
      of_.come();
    }
    void go() {
      here_ = false;
      last_ = spent();
      of_.go();
    }

    busy_time& of_;
    /// Names the clock of the thread's processor time.
    std::optional<clockid_t> cpu_;
    bool here_ = false;
    bool governed_ = false;
    clock::time_point check_at_;
    clock::time_point rests_until_;
    nanoseconds before_{0}; // spent() when it first had work
    /// Holds spent() of the time when it last paused.
    std::atomic<nanoseconds> last_ = nanoseconds{0};
    std::atomic<nanoseconds> busy_polled_ = nanoseconds{0};
    nanoseconds charged_{0}; // spent() at the governor's last report
  };

  /// Sets the governor. The caller does so before there is any work.
  void govern_by(std::shared_ptr<governor> who) { governor_ = std::move(who); }
  /// Returns the governor, or null.
  const governor* governed_by() const { return governor_.get(); }
  /// Ends governing: no thread waits for the governor any more.
  void release() {
    if (governor_)
      governor_->release();
  }
  /// Tells whether threads have to ask before they work.
  bool is_governed() const { return governor_ && governor_->governs(); }

  /// Runs a small job of a thread that is not the device's and must not wait.
  /// The job's processor time is taken to be its duration, because measuring it
  /// would cost too much.
  template <class F>
  void count(F job) {
    auto from = clock::now();
    {
      std::lock_guard guard{mutex_};
      begin(from);
    }
    job();
    auto to = clock::now();
    std::lock_guard guard{mutex_};
    worked_ += to - from;
    end(to);
  }

  /// Returns the total time in which at least one thread worked.
  nanoseconds total() const {
    std::lock_guard guard{mutex_};
    return busy_ == 0 ? total_ : total_ + (clock::now() - since_);
  }

  /// Returns the total processor time of all threads, including the time
  /// between two jobs, which a governor charges too.
  nanoseconds worked() const {
    std::lock_guard guard{mutex_};
    auto out = worked_;
    for (const auto* x : threads_)
      out += x->spent() - x->before_;
    return out;
  }

private:
  void remember(const presence& x) {
    std::lock_guard guard{mutex_};
    threads_.push_back(&x);
  }
  void forget(const presence& x) {
    std::lock_guard guard{mutex_};
    std::erase(threads_, &x);
    worked_ += x.spent() - x.before_;
  }
  void come() {
    std::lock_guard guard{mutex_};
    begin(clock::now());
  }
  void go() {
    std::lock_guard guard{mutex_};
    end(clock::now());
  }
  void begin(clock::time_point now) {
    if (busy_++ == 0)
      since_ = now;
  }
  void end(clock::time_point now) {
    if (--busy_ == 0)
      total_ += now - since_;
  }

  std::shared_ptr<governor> governor_;
  mutable std::mutex mutex_;
  std::vector<const presence*> threads_;
  unsigned busy_ = 0; // number of working threads
  clock::time_point since_;
  nanoseconds total_{0};
  nanoseconds worked_{0}; // of ended threads and small jobs
};

} // namespace vgpu::device::cpu
