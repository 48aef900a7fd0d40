#pragma once

#include <cstdint>

namespace vgpu {

/// Returns the least multiple of `to`, a power of two, that is not below `x`.
constexpr std::uint64_t round_up(std::uint64_t x, std::uint64_t to) noexcept {
  return (x + to - 1) & ~(to - 1);
}

} // namespace vgpu
