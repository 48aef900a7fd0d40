// Fingerprints of memory, taken where it is.
#pragma once

#include <compare>
#include <cstdint>

namespace vgpu::device::nvidia {

/// 128 bits of all bytes of a granule and of their places. It is no
/// cryptographic hash: who wants two granules to have the same one can make
/// them, and would deceive his own program alone.
struct fingerprint {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const fingerprint&) const = default;
};

/// As PTX text, for any GPU there is. Its one kernel, `fingerprint`, is
/// launched with (parts_of_granule, granules) blocks of fingerprint_threads
/// threads; its parameters are the addresses of a list of granules' addresses,
/// and of a zeroed fingerprint for each, to which it adds. Both lie in device
/// memory.
extern const char* const fingerprint_ptx;
inline constexpr unsigned fingerprint_threads = 256;
inline constexpr unsigned parts_of_granule = 16;

} // namespace vgpu::device::nvidia
