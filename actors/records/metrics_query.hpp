// What a process of the control plane can be asked about itself by somebody
// in the same process who is no peer: the metrics.
#pragma once

#include "actors/records/event_tally.hpp"

#include <caf/all.hpp>

#include <memory>
#include <string>

namespace vgpu {

/// To the manager or a supervisor; answered with metrics_ptr.
struct metrics_ask {};

struct metrics_snapshot {
  /// As `vgpu status --json`; a node's own has itself alone in `nodes`.
  std::string status;
  event_tally events;
  /// What users used in all (usage_book::summary()); empty: a node does not
  /// know.
  std::string usage{};
};

using metrics_ptr = std::shared_ptr<const metrics_snapshot>;

/// Tells about itself: the manager or a supervisor.
using metrics_source = caf::typed_actor<
    // The metrics server of the process asks for a snapshot.
    caf::replies_to<metrics_ask>::with<metrics_ptr>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::metrics_ask)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::metrics_ptr)
