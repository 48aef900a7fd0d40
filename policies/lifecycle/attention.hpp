// The time in which a judge could hear those whose silence it judges.
#pragma once

#include "policies/placement/views.hpp"

namespace vgpu::policy {

/// Measures attended time. A process that stood still (it was stopped, or its
/// host was busy) heard nobody, so that time must not count as the silence of
/// others. Attended time grows by at most one step between two moments at which
/// the judge really ran, however far they are apart.
///
/// The judge calls attend() at each turn, and judges only by now(). While it
/// waits for somebody it has to run at least once a step (due()), since time
/// passes too slowly for it otherwise. Attended time never goes back, and never
/// runs faster than real time: whoever judges by it judges later, never sooner.
class attention {
public:
  /// `step` is positive. `settles` is how long the judge must have run without
  /// a gap before it trusts what it has not heard.
  attention(time_point start, duration step, duration settles) noexcept
      : real_(start), attended_(start), step_(step), settles_(settles),
        settled_at_(start) {}

  /// Records that the judge runs at `now`, a real time.
  void attend(time_point now) noexcept;

  /// Returns the attended time. It begins with the real time of the start.
  time_point now() const noexcept { return attended_; }
  /// Returns whether there was no gap within the last while. A gap is a time of
  /// more than two steps in which the judge did not run.
  bool settled() const noexcept { return attended_ >= settled_at_; }
  /// Returns the real time at which the judge must run next to reach the
  /// attended time `then` as early as possible.
  time_point due(time_point then) const noexcept;

private:
  time_point real_;
  time_point attended_;
  duration step_;
  duration settles_;
  time_point settled_at_;
};

} // namespace vgpu::policy
