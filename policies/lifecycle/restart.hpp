#pragma once

#include "policies/placement/views.hpp"

namespace vgpu::policy {

/// Holds the options of restarting failed workers.
struct restart_options {
  /// Holds the number of failures on the same pGPU after which another one is
  /// preferred.
  unsigned moves_after = 2;
  /// Holds the number of failures in a row, without progress between them,
  /// after which the session is given up.
  unsigned gives_up_after = 10;
  /// Holds the delay before the second restart. The first restart is immediate,
  /// and each later delay doubles.
  duration first_delay = std::chrono::milliseconds{50};
  duration longest_delay = std::chrono::seconds{5};
  /// Holds the run time of a worker after which earlier failures are forgotten.
  duration forgets_after = std::chrono::seconds{60};
};

/// Describes a session's recent failures.
struct restart_history {
  unsigned in_a_row = 0;
  /// Counts the failures on the same pGPU.
  unsigned here = 0;
  time_point last;
};

/// Says what to do about a failure.
struct restart_decision {
  restart_history history;
  duration delay{0};
  /// Tells whether to prefer other pGPUs.
  bool elsewhere = false;
  bool give_up = false;
};

/// Decides what to do about a worker that failed at `now`.
restart_decision after_failure(const restart_history& before, time_point now,
                               const restart_options& options);

/// Returns the history of a session that got a new result after its last
/// failure. Its next failure is not one more in a row, and its pGPU is still
/// the one on which it failed.
restart_history after_progress(const restart_history& before);

} // namespace vgpu::policy
