// The future events of a simulation.
#pragma once

#include "policies/placement/views.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

namespace vgpu::simulator {

inline constexpr auto never = std::numeric_limits<double>::infinity();

/// Converts seconds since the beginning to a policy's time.
inline policy::time_point point(double seconds) {
  return policy::time_point{std::chrono::duration_cast<policy::duration>(
      std::chrono::duration<double>{seconds})};
}
/// Converts a policy's time to seconds since the beginning.
inline double seconds(policy::time_point x) {
  return std::chrono::duration<double>{x.time_since_epoch()}.count();
}

/// Describes a future event, unless it is moot by then.
struct event {
  /// Names what happens.
  enum class kind {
    /// Work ends until the next idle phase, or for good.
    work_ends,
    /// An idle phase ends.
    idle_ends,
    /// A vGPU has been idle long enough to be suspended.
    idle_long,
    /// A copy of memory ends.
    copied,
    /// A waiting vGPU gives up.
    gives_up,
    /// A turn with memory that another vGPU waits for ends.
    turn_ends,
    /// Balancing takes a sample.
    look
  };
  double at = 0;
  /// Orders the events of the same time.
  std::uint64_t order = 0;
  kind what = kind::look;
  std::uint32_t who = 0;
  std::uint32_t version = 0;

  bool operator>(const event& x) const {
    return std::tie(at, order) > std::tie(x.at, x.order);
  }
};

/// Events in order of time. Events at the same time are in the order in which
/// they were scheduled.
class calendar {
public:
  /// Schedules an event.
  void expect(double at, event::kind what, std::uint32_t who = 0,
              std::uint32_t version = 0) {
    events_.push({at, order_++, what, who, version});
  }

  bool empty() const noexcept { return events_.empty(); }
  /// Returns the time of the next event, or `never`.
  double due() const { return empty() ? never : events_.top().at; }
  const event& next() const { return events_.top(); }
  void drop() { events_.pop(); }

private:
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

} // namespace vgpu::simulator
