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

/// The options of idle reclaim.
struct reclaim_options {
  /// The number of sessions that are suspended on a node at a time, because the
  /// memory of each is copied there.
  std::size_t at_once = 4;
  /// How long a session that could not be suspended is left alone. It doubles
  /// with each further failure.
  duration first_rest = std::chrono::seconds{30};
  duration longest_rest = std::chrono::hours{1};
};

/// A session that may be suspended while it is idle.
struct idle_session {
  session_id id;
  std::string node; // its node
  /// The time of its last call, or of its last work's end.
  time_point active;
  /// It is idle when `active` is this long ago.
  duration after{0};
  /// It could not be suspended, and is left alone until then.
  time_point rests_until{};
};

/// The sessions to suspend, and when to decide again.
struct reclaim_decision {
  /// The sessions to suspend now, the longest idle first.
  std::vector<session_id> now;
  /// When to decide again, if nothing happens before.
  std::optional<time_point> look_again;
};

/// The number of sessions that are being suspended, by node.
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
