// The metrics of a manager or a supervisor, for another actor of the same
// process.
#pragma once

#include "actors/records/event_tally.hpp"

#include <caf/all.hpp>

#include <memory>
#include <string>

namespace vgpu {

/// Asks the manager or a supervisor for metrics_ptr.
struct metrics_ask {};

struct metrics_snapshot {
  /// Holds what `vgpu status --json` prints; a supervisor knows only its own
  /// node.
  std::string status;
  event_tally events;
  /// Holds usage_book::summary() by user; empty in a supervisor.
  std::string usage{};
};

using metrics_ptr = std::shared_ptr<const metrics_snapshot>;

/// Answers with its own metrics: the manager or a supervisor.
using metrics_source = caf::typed_actor<
    // The metrics server of the process asks for a snapshot.
    caf::replies_to<metrics_ask>::with<metrics_ptr>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::metrics_ask)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::metrics_ptr)
