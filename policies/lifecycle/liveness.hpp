#pragma once

#include "policies/placement/views.hpp"

#include <cstddef>
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

/// Describes the time of a peer's last message, of its connection's end, if it
/// was closed, and of its judge's doubt, if it was doubted that the peer is
/// lost. All are times that the judge attended (attention.hpp). A message of
/// the peer clears the other two.
struct sightings {
  time_point heard;
  std::optional<time_point> closed{};
  std::optional<time_point> doubted{};
};

/// Returns the time from which the peer counts as lost, unless a message
/// arrives before.
time_point lost_at(const sightings& seen, const liveness_options& options);

/// Returns whether the peer counts as lost at `now`.
bool is_lost(const sightings& seen, time_point now,
             const liveness_options& options);

/// Returns whether the peer is about to be lost: its connection is closed, or
/// half of its time is over.
bool is_silent(const sightings& seen, time_point now,
               const liveness_options& options);

/// Returns whether so many peers are silent at once that their judge, or its
/// network, is the likelier cause: more than one, and more than half of them.
bool is_mass_silence(std::size_t silent, std::size_t peers) noexcept;

} // namespace vgpu::policy
