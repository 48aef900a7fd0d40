// The members of a session's use by name, and sums of them.
#pragma once

#include "actors/link/protocol.hpp"

#include <algorithm>
#include <array>

namespace vgpu {

struct usage_member {
  const char* name; // in JSON
  std::uint64_t control::usage::*value;
  bool traffic; // whether it counts bytes that calls moved
};

/// Lists all members.
inline constexpr std::array<usage_member, 6> usage_members{{
    {"device_ns", &control::usage::device_ns, false},
    {"replay_ns", &control::usage::replay_ns, false},
    {"to_device", &control::usage::to_device, true},
    {"from_device", &control::usage::from_device, true},
    {"replay_bytes", &control::usage::replay_bytes, true},
    {"memory_kib_ms", &control::usage::memory_kib_ms, false},
}};

inline void add(control::usage& to, const control::usage& x) {
  for (auto [name, value, traffic] : usage_members)
    to.*value += x.*value;
}

/// Returns how much each total has grown; totals never shrink.
inline control::usage growth_of(const control::usage& from,
                                const control::usage& to) {
  control::usage out;
  for (auto [name, value, traffic] : usage_members)
    out.*value = to.*value - std::min(from.*value, to.*value);
  return out;
}

/// Returns the larger of each total.
inline control::usage later(const control::usage& a, const control::usage& b) {
  control::usage out;
  for (auto [name, value, traffic] : usage_members)
    out.*value = std::max(a.*value, b.*value);
  return out;
}

} // namespace vgpu
