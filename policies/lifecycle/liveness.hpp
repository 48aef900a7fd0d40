#pragma once

#include "policies/placement/views.hpp"

#include <optional>

namespace vgpu::policy {

struct liveness_options {
  /// Silence that makes a peer lost.
  duration lost_after = std::chrono::milliseconds{500};
  /// A peer whose connection closed is lost already after this.
  duration reconnect_within = std::chrono::milliseconds{100};
};

/// When a peer was last heard, and when its connection closed, if it did.
struct sightings {
  time_point heard;
  std::optional<time_point> closed;
};

/// From this moment on the peer counts as lost, unless it is heard before.
time_point lost_at(const sightings& seen, const liveness_options& options);

/// Whether it counts as lost at `now`.
bool is_lost(const sightings& seen, time_point now,
             const liveness_options& options);

} // namespace vgpu::policy
