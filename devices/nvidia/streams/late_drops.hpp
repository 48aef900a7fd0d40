// The moment at which the driver drops a program's code and arrays.
#pragma once

#include "devices/nvidia/streams/streams.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace vgpu::device::nvidia {

/// Drops code and arrays when the work so far is done, but not while a stream
/// waits for the program. When the driver drops them it waits for all streams,
/// and the thread that waits there is the one that reports to the program that
/// a stream has reached its host function. One thread adds, begins and
/// finishes; completions come from any thread.
class late_drops {
public:
  explicit late_drops(streams& of) : streams_(of) {}

  /// Drops something when the work so far is done. `so_far` is the device's
  /// error.
  void add(std::function<void()> drop, CUresult so_far);

  /// Drops what was added before, and waits for the work that it waits for; but
  /// not while a stream waits for the program. Call it before the driver places
  /// something: a program sees the addresses of variables, and the session's
  /// next worker, which may come here sooner or later than its work, must find
  /// the same places free.
  void finish();

  /// Enqueues a host function, or a wait for a value, whose part for the
  /// program follows as a host function. Nothing is dropped meanwhile.
  template <class Enqueue>
  status begin_host_call(const Enqueue& work) {
    std::lock_guard guard{lock_};
    wait_begun_ = false;
    return work();
  }
  template <class Enqueue>
  status begin_wait(const Enqueue& work) {
    std::lock_guard guard{lock_};
    auto ok = work();
    wait_begun_ = ok.ok();
    return ok;
  }

private:
  bool program_has_turns() const noexcept;
  void drop_postponed();

  streams& streams_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool wait_begun_ = false;
  std::size_t waiting_ = 0; // for their work
  std::vector<std::function<void()>> postponed_;
};

} // namespace vgpu::device::nvidia
