// Where copies are made.
#pragma once

#include "devices/cpu/run/busy_time.hpp"
#include "devices/cpu/run/scheduler.hpp"

#include <cstdint>
#include <utility>

namespace vgpu::device::cpu {

/// A thread that makes copies in order, and asks the device's governor as its
/// other threads do. Used by the scheduler's threads.
class copy_engine {
public:
  /// `busy` must outlive it. `keeps_place`: between two copies it keeps its
  /// place for a while, which must not be the device's only one.
  copy_engine(busy_time& busy, bool keeps_place)
      : busy_(busy), keeps_place_(keeps_place) {}

  /// What is done sooner than another thread wakes is done here and now, unless
  /// it may have to wait.
  template <class F>
  void run(std::uint64_t bytes, F job) {
    constexpr std::uint64_t small = 32 << 10;
    if (bytes <= small && !busy_.is_governed())
      busy_.count(job);
    else
      thread_.post([this, job = std::move(job)] {
        presence_.enter();
        job();
      });
  }

  void stop() { thread_.stop(); }
  /// Begins no more copies.
  void freeze() { thread_.freeze(); }

private:
  busy_time& busy_;
  bool keeps_place_;
  busy_time::presence presence_{busy_};
  // Last: it uses the rest.
  job_thread thread_{0,
                     {[this] {
                        presence_.rest(keeps_place_);
                        return presence_.rests_until();
                      },
                      [this] { presence_.leave(); }}};
};

} // namespace vgpu::device::cpu
