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

struct reclaim_options {
  /// Of a node so many are suspended at a time: each has its memory copied
  /// there.
  std::size_t at_once = 4;
  /// One that could not be suspended is left alone for so long, the second time
  /// twice that, and so on.
  duration first_rest = std::chrono::seconds{30};
  duration longest_rest = std::chrono::hours{1};
};

/// A session that may be suspended when it does nothing.
struct idle_session {
  session_id id;
  std::string node; // that it is on
  /// Its last call, or the end of its last work.
  time_point active;
  /// Without either for so long, it is idle.
  duration after{0};
  /// It could not be suspended, and is left alone until then.
  time_point rests_until{};
};

struct reclaim_decision {
  std::vector<session_id> now; // to be suspended, the longest idle first
  /// When to look again, if nothing is heard until then.
  std::optional<time_point> look_again;
};

/// How many are being suspended already, by node.
using suspensions = std::map<std::string, std::size_t>;

/// Who is to give way. Where as many leave a node as may, there is nothing to
/// look again for: whoever is done asks anew.
reclaim_decision choose_idle(std::span<const idle_session> all,
                             suspensions under_way, time_point now,
                             const reclaim_options& options);

/// Until when one is left alone that could not be suspended, so often in a row.
time_point rest_after(unsigned refusals, time_point now,
                      const reclaim_options& options);

} // namespace vgpu::policy
