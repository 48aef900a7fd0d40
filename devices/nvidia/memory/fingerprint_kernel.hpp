// The kernel that takes fingerprints of device memory.
#pragma once

#include <compare>
#include <cstdint>

namespace vgpu::device::nvidia {

/// A hash of 128 bits over the bytes of a granule and their positions. It is
/// not cryptographic: a program that constructs two granules with the same
/// fingerprint deceives only itself.
struct fingerprint {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const fingerprint&) const = default;
};

/// The kernel as PTX text, for any GPU from compute capability 7.0 on. Its one
/// entry, `fingerprint`, is launched with (parts_of_granule, granules) blocks
/// of fingerprint_threads threads. Its parameters are the addresses of a list
/// of granule addresses and of a list of zeroed fingerprints, to which it adds.
/// Both lists lie in device memory.
extern const char* const fingerprint_ptx;
/// The threads of each block of the kernel.
inline constexpr unsigned fingerprint_threads = 256;
/// The blocks that share one granule.
inline constexpr unsigned parts_of_granule = 16;

} // namespace vgpu::device::nvidia
