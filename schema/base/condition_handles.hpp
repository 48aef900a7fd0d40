// How kernels name the words by which conditional nodes of graphs decide
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
// where `base` comes with the launch: for a graph's kernel it is the place of
// that graph's values, and for any other kernel 0. So to a kernel that is
// launched by itself, a handle can name any word of the first 16 GiB of a
// device's addresses (docs/design/nvidia-device.md, "Conditions in graphs").

/// Returns the handle that names the word at this address.
constexpr std::uint64_t condition_handle(device_address word) noexcept {
  return word / sizeof(std::uint32_t) + 1;
}
/// Returns the address of the word that a handle names.
constexpr device_address condition_word(std::uint64_t handle) noexcept {
  return ((handle - 1) & 0xffff'ffff) * sizeof(std::uint32_t);
}

/// Gives the largest size of a device's words, in bytes.
inline constexpr std::uint64_t condition_bytes = granule_bytes;

/// Gives the places where a session's words may lie for kernels, beginning with
/// device 0's. A worker's process may have some of them in use.
inline constexpr std::array<device_address, 4> condition_places{
    0x1'4000'0000, 0x3'c000'0000, 0x1'8000'0000, 0xc000'0000};

/// Returns whether words may be placed at this address.
constexpr bool is_condition_place(device_address at) noexcept {
  constexpr device_address first = 1 << 30;
  constexpr device_address end = device_address{1} << 34;
  return at % granule_bytes == 0 && at >= first && at < end - condition_bytes;
}

} // namespace vgpu
