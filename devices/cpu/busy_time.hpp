// How long a device's threads had something to do, and what they got done.
#pragma once

#include "devices/meter.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include <ctime>
#include <pthread.h>

namespace vgpu::device::cpu {

/// The time in which at least one thread was at work, and of all threads the
/// time that the host gave them and that they could have used: a host whose
/// processors are wanted by others lets them wait. The present included.
/// Thread-safe.
class busy_time {
  using clock = std::chrono::steady_clock;

public:
  /// A thread of the device, which uses it alone.
  class presence {
  public:
    explicit presence(busy_time& of) : of_(of) {
      ::pthread_getcpuclockid(::pthread_self(), &cpu_);
    }
    ~presence() { leave(); }
    presence(const presence&) = delete;
    presence& operator=(const presence&) = delete;

    /// It has something to do, or nothing any more. No effect when that is
    /// known. It may have been woken for it earlier than it came.
    void enter(clock::time_point woken) {
      if (here_)
        return;
      here_ = true;
      since_ = std::max(woken, left_);
      spent_ = spent();
      of_.enter(*this);
    }
    void leave() {
      if (!here_)
        return;
      here_ = false;
      left_ = clock::now();
      of_.leave(*this, left_, spent() - spent_);
    }

  private:
    friend busy_time;
    std::chrono::nanoseconds spent() const {
      timespec x{};
      ::clock_gettime(cpu_, &x);
      return std::chrono::seconds{x.tv_sec} +
             std::chrono::nanoseconds{x.tv_nsec};
    }

    busy_time& of_;
    clockid_t cpu_{};
    bool here_ = false;
    clock::time_point since_;
    clock::time_point left_;
    std::chrono::nanoseconds spent_{0};
  };

  /// A small job of a thread that is not the device's: it is not worth asking
  /// what the host let it have.
  template <class F>
  void count(F job) {
    auto from = clock::now();
    {
      std::lock_guard guard{mutex_};
      jobs_.push_back(from);
      begin(from);
    }
    job();
    auto to = clock::now();
    std::lock_guard guard{mutex_};
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), from));
    worked_ += to - from;
    wanted_ += to - from;
    end(to);
  }

  /// A longer one: by what the host let this thread have.
  template <class F>
  void attend(F job) {
    presence here{*this};
    here.enter(clock::now());
    job();
  }

  std::chrono::nanoseconds total() const {
    std::lock_guard guard{mutex_};
    return total_locked(clock::now());
  }

  /// Of a device with so many threads.
  effort efforts(unsigned threads) const {
    std::lock_guard guard{mutex_};
    auto now = clock::now();
    effort out{total_locked(now), worked_, wanted_};
    for (auto since : jobs_) {
      out.worked += now - since;
      out.wanted += now - since;
    }
    for (const auto* x : here_) {
      out.worked += x->spent() - x->spent_;
      out.wanted += now - x->since_;
    }
    out.worked /= threads;
    out.wanted /= threads;
    return out;
  }

private:
  void enter(const presence& x) {
    std::lock_guard guard{mutex_};
    here_.push_back(&x);
    begin(clock::now());
  }
  void leave(const presence& x, clock::time_point now,
             std::chrono::nanoseconds spent) {
    std::lock_guard guard{mutex_};
    std::erase(here_, &x);
    worked_ += spent;
    wanted_ += now - x.since_;
    end(now);
  }
  void begin(clock::time_point now) {
    if (busy_++ == 0)
      since_ = now;
  }
  void end(clock::time_point now) {
    if (--busy_ == 0)
      total_ += now - since_;
  }
  std::chrono::nanoseconds total_locked(clock::time_point now) const {
    return busy_ == 0 ? total_ : total_ + (now - since_);
  }

  mutable std::mutex mutex_;
  std::vector<const presence*> here_;
  std::vector<clock::time_point> jobs_; // when each began
  unsigned busy_ = 0;                   // threads
  clock::time_point since_;
  std::chrono::nanoseconds total_{0};
  std::chrono::nanoseconds worked_{0};
  std::chrono::nanoseconds wanted_{0};
};

} // namespace vgpu::device::cpu
