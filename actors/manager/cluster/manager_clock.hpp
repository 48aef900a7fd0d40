// A manager's time, which its caller sets.
#pragma once

#include "policies/lifecycle/attention.hpp"
#include "policies/lifecycle/liveness.hpp"
#include "policies/placement/views.hpp"

#include <algorithm>
#include <optional>

namespace vgpu {

using policy::time_point;

/// Holds the time of the message that a manager handles, and when it must run
/// next. Not thread-safe: it is a value of the manager's state.
///
/// It has two times. now() is for the manager's own affairs. attended() is for
/// all that depends on the silence of others: it stands still while this
/// process does. Deadlines of one must not be compared with the other.
class manager_clock {
public:
  manager_clock(time_point start, const policy::liveness_options& x)
      : now_(start), started_(start),
        attention_(start, step_of(x), x.lost_after) {}

  /// Returns when the message or tick arrived that is being handled.
  time_point now() const noexcept { return now_; }
  /// Returns when this manager began, in both times.
  time_point started() const noexcept { return started_; }
  /// Returns the time in which this manager could hear its peers.
  time_point attended() const noexcept { return attention_.now(); }
  /// Returns whether the manager ran without a gap for a while, so that it may
  /// trust what it has not heard.
  bool settled() const noexcept { return attention_.settled(); }
  /// Sets the time of another message. Time never goes back.
  void advance(time_point now) noexcept {
    now_ = now;
    attention_.attend(now);
  }

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
  /// Asks for the ticks that lead to the attended time `then`.
  void due_attended(time_point then) noexcept { due(attention_.due(then)); }
  /// Forgets all requests for ticks, before every part asks anew.
  void forget_due() noexcept { due_.reset(); }
  /// Returns when the next tick is due; unset: no part asked for one.
  std::optional<time_point> next_due() const noexcept { return due_; }

private:
  /// Returns the time of two heartbeats, or less where the manager judges
  /// faster.
  static policy::duration step_of(const policy::liveness_options& x) {
    constexpr policy::duration shortest = std::chrono::milliseconds{1};
    return std::max(x.lost_after * 2 / 5, shortest);
  }

  time_point now_;
  time_point started_;
  policy::attention attention_;
  std::optional<time_point> due_;
};

} // namespace vgpu
