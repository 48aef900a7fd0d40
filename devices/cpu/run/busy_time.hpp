// How long a device's threads had something to do, what processors they had,
// and whether they may.
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

/// The time in which at least one thread was at work, and the processors' time
/// that all had, the present included: a host whose processors are wanted by
/// others lets threads wait. Thread-safe.
class busy_time {
  using clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

public:
  /// A thread of the device, which uses it alone.
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

    bool is_here() const { return here_; }

    /// It has something to do. Returns when it may do it.
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
    /// To be called now and then while it is here, at least whenever
    /// is_wanted_elsewhere(). Returns when it may go on.
    void stay() {
      auto* by = of_.governor_.get();
      if (by == nullptr || (!governed_ && !by->governs()))
        return;
      auto now = clock::now();
      if (now < look_at_ && !by->hurries())
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
    bool is_wanted_elsewhere() const {
      return governed_ && of_.governor_->hurries();
    }
    /// It has nothing to do at the moment. Where it had to ask, it may begin
    /// again without asking, until it leaves. `keeps`: its place is kept for it
    /// for a while from now on; otherwise no longer than it was.
    void rest(bool keeps) {
      if (!here_)
        return;
      go();
      if (keeps)
        rests_until_ = clock::now() + longest_rest;
    }
    /// Looks whether something comes to do, for as long as to be woken takes.
    /// Only where it has asked and rests: its place is kept for it, and were it
    /// to sleep at once nobody would have the processor. It counts as no work.
    template <class F>
    bool looks_out(F comes) {
      if (!governed_ || !of_.governor_->governs())
        return false;
      auto before = processor_time();
      auto until = clock::now() + longest_look_out;
      auto out = comes();
      for (; !out && clock::now() < until; out = comes())
        // Programs and what serves them need processors, too.
        std::this_thread::yield();
      looked_out_ = looked_out_.load() + (processor_time() - before);
      return out;
    }
    /// Until when it is worth waiting for something to do before leaving; none:
    /// it need not leave.
    std::optional<clock::time_point> rests_until() const {
      return governed_ ? std::optional{rests_until_} : std::nullopt;
    }
    void leave() {
      rest(false);
      if (std::exchange(governed_, false))
        of_.governor_->end(since_charged());
    }

  private:
    friend busy_time;
    static constexpr auto look_every = std::chrono::milliseconds{1};
    /// Were another thread woken for less, both would only be in each other's
    /// way: threads of a kernel end at different times, and whoever filled in
    /// for the first is in the way of the next kernel.
    static constexpr auto longest_rest = std::chrono::microseconds{500};
    static constexpr auto longest_look_out = std::chrono::microseconds{50};

    void introduce() {
      ::pthread_getcpuclockid(::pthread_self(), &cpu_.emplace());
      before_ = spent();
      of_.remember(*this);
    }
    nanoseconds processor_time() const {
      timespec x{};
      if (::clock_gettime(*cpu_, &x) != 0)
        return last_.load() + looked_out_.load(); // it has ended
      return std::chrono::seconds{x.tv_sec} + nanoseconds{x.tv_nsec};
    }
    /// Of the thread's time, ever, what counts.
    nanoseconds spent() const { return processor_time() - looked_out_.load(); }
    nanoseconds since_charged() const { return spent() - charged_; }
    void note_asked() {
      charged_ = spent();
      look_at_ = clock::now() + look_every;
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
    std::optional<clockid_t> cpu_; // of the thread
    bool here_ = false;
    bool governed_ = false;
    clock::time_point look_at_;
    clock::time_point rests_until_;
    nanoseconds before_{0}; // when it had work for the first time
    std::atomic<nanoseconds> last_ = nanoseconds{0}; // when it went
    std::atomic<nanoseconds> looked_out_ = nanoseconds{0};
    nanoseconds charged_{0}; // when the governor was told
  };

  /// Before there is any work.
  void govern_by(std::shared_ptr<governor> who) { governor_ = std::move(who); }
  const governor* governed_by() const { return governor_.get(); }
  /// Nobody waits any more for being allowed to work.
  void release() {
    if (governor_)
      governor_->release();
  }
  /// Whether threads have to ask before they work.
  bool is_governed() const { return governor_ && governor_->governs(); }

  /// A small job of a thread that is not the device's and must not wait: it is
  /// not worth asking what the host let it have.
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

  nanoseconds total() const {
    std::lock_guard guard{mutex_};
    return busy_ == 0 ? total_ : total_ + (clock::now() - since_);
  }

  /// Processors' time, of all threads, also what they need between one job and
  /// the next: a governor charges that, too.
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
  unsigned busy_ = 0; // threads
  clock::time_point since_;
  nanoseconds total_{0};
  nanoseconds worked_{0}; // of threads that ended, and small jobs
};

} // namespace vgpu::device::cpu
