// Units of the tests of turns.
#pragma once

#include "policies/compute/share.hpp"

#include <limits>

namespace vgpu::policy {

inline constexpr share_ns us = 1'000;
inline constexpr share_ns ms = 1'000'000;
inline constexpr share_ns s = 1'000'000'000;
inline constexpr auto never = std::numeric_limits<share_ns>::max();

/// The allowed error of a share in any window of 2 s.
inline constexpr auto two_points = 0.02;

} // namespace vgpu::policy
