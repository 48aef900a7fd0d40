#pragma once

#include "policies/placement/views.hpp"

namespace vgpu::policy {

struct restart_options {
  /// Failures on the same pGPU after which another one is preferred.
  unsigned moves_after = 2;
  /// Failures in a row after which the session is given up.
  unsigned gives_up_after = 10;
  /// The second failure waits this long, the third twice that, and so on. The
  /// first does not wait.
  duration first_delay = std::chrono::milliseconds{50};
  duration longest_delay = std::chrono::seconds{5};
  /// A worker that ran this long makes earlier failures forgotten.
  duration forgets_after = std::chrono::seconds{60};
};

/// What a session has gone through of late.
struct restart_history {
  unsigned in_a_row = 0;
  unsigned here = 0; // on the same pGPU
  time_point last;
};

struct restart_decision {
  restart_history history;
  duration delay{0};
  bool elsewhere = false; // prefer other pGPUs
  bool give_up = false;
};

/// What to do about a worker that failed at `now`.
restart_decision after_failure(const restart_history& before, time_point now,
                               const restart_options& options);

} // namespace vgpu::policy
