// What will happen in a simulation, and when.
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

/// Seconds since the beginning, as policies have them.
inline policy::time_point point(double seconds) {
  return policy::time_point{std::chrono::duration_cast<policy::duration>(
      std::chrono::duration<double>{seconds})};
}
inline double seconds(policy::time_point x) {
  return std::chrono::duration<double>{x.time_since_epoch()}.count();
}

/// Something that will happen, unless it is moot by then.
struct event {
  enum class kind {
    work_ends, // until its next idle phase, or for good
    idle_ends,
    idle_long, // it may give way
    copied,
    gives_up,
    turn_ends, // with memory that somebody waits for
    look       // for hot pGPUs
  };
  double at = 0;
  std::uint64_t order = 0; // of those at the same time
  kind what = kind::look;
  std::uint32_t who = 0;
  std::uint32_t version = 0;

  bool operator>(const event& x) const {
    return std::tie(at, order) > std::tie(x.at, x.order);
  }
};

/// Events in the order in which they happen: of those at the same time, in the
/// order in which they were expected.
class calendar {
public:
  void expect(double at, event::kind what, std::uint32_t who = 0,
              std::uint32_t version = 0) {
    events_.push({at, order_++, what, who, version});
  }

  bool empty() const noexcept { return events_.empty(); }
  /// When the next one happens.
  double due() const { return empty() ? never : events_.top().at; }
  const event& next() const { return events_.top(); }
  void drop() { events_.pop(); }

private:
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

} // namespace vgpu::simulator
