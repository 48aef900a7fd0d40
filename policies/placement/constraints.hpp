#pragma once

#include "policies/placement/views.hpp"
#include "schema/wire/specification.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace vgpu::policy {

/// Returns the demand of a specification, for a program on `host`. The caller
/// adds everything that depends on other sessions and on the session's past.
demand demand_of(const control::specification& x, const std::string& host);

/// Describes the order of the queue; the smaller, the earlier. Sessions that
/// ran already come first, then the order is by priority and then by age. A
/// session that released its memory for others waits behind all that came
/// before that: it counts as one that never ran, and its age is that of its
/// wait.
struct queue_rank {
  queue_rank(bool ran, std::int32_t priority, std::uint64_t number,
             time_point waits_since = {})
      : fresh(!ran), behind(-std::int64_t{priority}), since(waits_since),
        age(number) {}

  bool fresh;
  std::int64_t behind;
  time_point since;
  std::uint64_t age;
  auto operator<=>(const queue_rank&) const = default;
};

} // namespace vgpu::policy
