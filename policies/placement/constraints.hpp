#pragma once

#include "policies/placement/views.hpp"
#include "schema/wire/specification.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace vgpu::policy {

/// What a specification asks of a place, for a program on `host`. What depends
/// on where others are, and on its own past, is for the caller to add.
demand demand_of(const control::specification& x, const std::string& host);

/// The order in which those who wait are looked at; the smaller, the earlier:
/// who ran already, then by priority, then by age. Who made room for others
/// waits behind all who came before that: it ran no more than they, and is as
/// old as its wait.
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
