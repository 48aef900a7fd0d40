// The thread that executes copies.
#pragma once

#include "devices/cpu/run/busy_time.hpp"
#include "devices/cpu/run/scheduler.hpp"

#include <cstdint>
#include <utility>

namespace vgpu::device::cpu {

/// Makes copies in order on a thread of its own, which asks the device's
/// governor as the device's other threads do. The scheduler's threads call it.
class copy_engine {
public:
  /// Starts the thread. `busy` must outlive it. With `keeps_place` its place at
  /// the governor is reserved for a while between two copies. The device must
  /// then have a further place.
  copy_engine(busy_time& busy, bool keeps_place)
      : busy_(busy), keeps_place_(keeps_place) {}

  /// Runs a copy of `bytes` bytes. A copy that takes less time than waking
  /// another thread runs on the calling thread, unless it might have to wait
  /// there.
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
  /// Starts no further copies.
  void freeze() { thread_.freeze(); }

private:
  busy_time& busy_;
  bool keeps_place_;
  busy_time::presence presence_{busy_};
  // It is the last member because its thread uses the other members.
  job_thread thread_{0,
                     {[this] {
                        presence_.rest(keeps_place_);
                        return presence_.rests_until();
                      },
                      [this] { presence_.leave(); }}};
};

} // namespace vgpu::device::cpu
