// A manager's time, which its caller sets.
#pragma once

#include "policies/placement/views.hpp"

#include <optional>

namespace vgpu {

using policy::time_point;

/// Holds the time of the message that a manager handles, and when it must run
/// next. Not thread-safe: it is a value of the manager's state.
class manager_clock {
public:
  explicit manager_clock(time_point start) : now_(start), started_(start) {}

  /// Returns when the message or tick arrived that is being handled.
  time_point now() const noexcept { return now_; }
  /// Returns when this manager began.
  time_point started() const noexcept { return started_; }
  /// Sets the time of another message. Time never goes back.
  void advance(time_point now) noexcept { now_ = now; }

  /// Asks for a tick at `when` or earlier.
  void due(time_point when) noexcept {
    if (!due_ || when < *due_)
      due_ = when;
  }
  /// Does the same if `when` is set.
  void due(const std::optional<time_point>& when) noexcept {
    if (when)
      due(*when);
  }
  /// Forgets all requests for ticks, before every part asks anew.
  void forget_due() noexcept { due_.reset(); }
  /// Returns when the next tick is due; unset: no part asked for one.
  std::optional<time_point> next_due() const noexcept { return due_; }

private:
  time_point now_;
  time_point started_;
  std::optional<time_point> due_;
};

} // namespace vgpu
