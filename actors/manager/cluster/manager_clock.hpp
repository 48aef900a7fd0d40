// A manager's time, which comes from outside.
#pragma once

#include "policies/placement/views.hpp"

#include <optional>

namespace vgpu {

using policy::time_point;

/// The time of the message that a manager handles, and when the manager is to
/// be woken. A value of the manager's state; one thread.
class manager_clock {
public:
  explicit manager_clock(time_point start) : now_(start), started_(start) {}

  /// When the message or the tick came that is being handled.
  time_point now() const noexcept { return now_; }
  /// When this manager began.
  time_point started() const noexcept { return started_; }
  /// Another message came; time never goes back.
  void advance(time_point now) noexcept { now_ = now; }

  /// Asks for a tick at `when`, or earlier.
  void due(time_point when) noexcept {
    if (!due_ || when < *due_)
      due_ = when;
  }
  /// The same, where there is anything to ask for.
  void due(const std::optional<time_point>& when) noexcept {
    if (when)
      due(*when);
  }
  /// Forgets what was asked for, before every part asks anew.
  void forget_due() noexcept { due_.reset(); }
  /// When the next tick is due; nothing: no part asked for one.
  std::optional<time_point> next_due() const noexcept { return due_; }

private:
  time_point now_;
  time_point started_;
  std::optional<time_point> due_;
};

} // namespace vgpu
