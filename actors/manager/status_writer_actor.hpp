// The messages and the typed handle of a status writer. The behaviour is in
// status_writer.hpp.
#pragma once

#include "actors/manager/status_report.hpp"
#include "actors/records/event_tally.hpp"
#include "actors/records/metrics_query.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <string>

namespace vgpu {

/// Asks for the status as the answer to a peer's request.
struct status_order {
  std::string peer;
  std::uint64_t request = 0;
  status_view_ptr view;
};

/// Asks for the metrics.
struct metrics_order {
  status_view_ptr view;
  event_tally events;
  /// Holds usage_book::summary() by user.
  std::string usage;
};

/// Composes a manager's status and metrics.
using status_writer_actor = caf::typed_actor<
    // The manager passes on a command's request for the status.
    caf::reacts_to<status_order>,
    // The manager passes on the request of the process's metrics server.
    caf::replies_to<metrics_order>::with<metrics_ptr>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::status_order)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::metrics_order)
