// How kernels name the words by which graphs choose what is done
// (cudaGraphSetConditional).
#pragma once

#include "schema/base/ids.hpp"

#include <array>
#include <cstdint>

namespace vgpu {

// A driver's cudaGraphSetConditional(handle, value) stores 32 bits at
//
//   base + 4 * (handle mod 2^32) - 4
//
// where `base` is what the driver gave the launch: of a graph's kernel the
// place of that graph's values, of any other kernel 0. So a handle can name any
// word of the first 16 GiB of a device's addresses to a kernel that is launched
// by itself (devices/nvidia/README.md says how that was found out).

constexpr std::uint64_t condition_handle(device_address word) noexcept {
  return word / sizeof(std::uint32_t) + 1;
}
constexpr device_address condition_word(std::uint64_t handle) noexcept {
  return ((handle - 1) & 0xffff'ffff) * sizeof(std::uint32_t);
}

/// Of one device: so many words, at most.
inline constexpr std::uint64_t condition_bytes = granule_bytes;

/// Where a session's words may lie for kernels, beginning with device 0's; some
/// may be taken in a worker's process.
inline constexpr std::array<device_address, 4> condition_places{
    0x1'4000'0000, 0x3'c000'0000, 0x1'8000'0000, 0xc000'0000};

/// Whether words may be asked to lie there.
constexpr bool is_condition_place(device_address at) noexcept {
  constexpr device_address first = 1 << 30;
  constexpr device_address end = device_address{1} << 34;
  return at % granule_bytes == 0 && at >= first && at < end - condition_bytes;
}

} // namespace vgpu
