#pragma once

#include "policies/placement/views.hpp"

#include <optional>

namespace vgpu::policy {

/// Says when a silent peer counts as lost.
struct liveness_options {
  /// Holds the silence after which a peer is lost.
  duration lost_after = std::chrono::milliseconds{500};
  /// Holds the time after which a peer with a closed connection is already
  /// lost.
  duration reconnect_within = std::chrono::milliseconds{100};
};

/// Describes the time of a peer's last message, and of its connection's end, if
/// it was closed.
struct sightings {
  time_point heard;
  std::optional<time_point> closed;
};

/// Returns the time from which the peer counts as lost, unless a message
/// arrives before.
time_point lost_at(const sightings& seen, const liveness_options& options);

/// Returns whether the peer counts as lost at `now`.
bool is_lost(const sightings& seen, time_point now,
             const liveness_options& options);

} // namespace vgpu::policy
