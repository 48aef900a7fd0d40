// A digest from which nobody finds what it was made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu {

/// Is a SHA-256 (FIPS 180-4).
using one_way_digest = std::array<std::uint8_t, 32>;

/// Returns the SHA-256 of these bytes. XXH3, which names images, can be
/// inverted and must not stand for a secret.
one_way_digest one_way(std::span<const std::byte> bytes) noexcept;

} // namespace vgpu
