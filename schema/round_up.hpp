#pragma once

#include <cstdint>

namespace vgpu {

/// The least multiple of `to`, which is not 0, that is not below `x`.
constexpr std::uint64_t round_up(std::uint64_t x, std::uint64_t to) noexcept {
  return (x + to - 1) / to * to;
}

} // namespace vgpu
