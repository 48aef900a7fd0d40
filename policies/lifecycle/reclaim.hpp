#pragma once

#include "policies/placement/views.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Holds the options of idle reclaim.
struct reclaim_options {
  /// Holds the number of sessions that are suspended on a node at a time,
  /// because the memory of each is copied there.
  std::size_t at_once = 4;
  /// Says how long a session that could not be suspended is left alone. It
  /// doubles with each further failure.
  duration first_rest = std::chrono::seconds{30};
  duration longest_rest = std::chrono::hours{1};
};

/// Describes a session that may be suspended while it is idle.
struct idle_session {
  session_id id;
  std::string node;
  /// Holds the time of its last call, or of its last work's end.
  time_point active;
  /// The session is idle when `active` is this long ago.
  duration after{0};
  /// Says until when a session that could not be suspended is left alone.
  time_point rests_until{};
};

/// Describes the sessions to suspend, and when to decide again.
struct reclaim_decision {
  /// Holds the sessions to suspend now, the longest idle first.
  std::vector<session_id> now;
  /// Says when to decide again, if nothing happens before.
  std::optional<time_point> look_again;
};

/// Counts the sessions that are being suspended, by node.
using suspensions = std::map<std::string, std::size_t>;

/// Chooses the sessions to suspend. A node at its limit sets no time to decide
/// again, because the end of a suspension causes a new decision anyway.
reclaim_decision choose_idle(std::span<const idle_session> all,
                             suspensions under_way, time_point now,
                             const reclaim_options& options);

/// Returns until when to leave a session alone after so many failures in a row.
time_point rest_after(unsigned refusals, time_point now,
                      const reclaim_options& options);

} // namespace vgpu::policy
