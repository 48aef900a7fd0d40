// The kernel that takes fingerprints of device memory.
#pragma once

#include <compare>
#include <cstdint>

namespace vgpu::device::nvidia {

/// Holds a hash of 128 bits over the bytes of a granule and their positions. It
/// is not cryptographic: a program that constructs two granules with the same
/// fingerprint deceives only itself.
struct fingerprint {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const fingerprint&) const = default;
};

/// This is the kernel as PTX text, for any GPU from compute capability 7.0 on.
/// Its one entry, `fingerprint`, is launched with (parts_of_granule, granules)
/// blocks of fingerprint_threads threads. Its parameters are the addresses of a
/// list of granule addresses and of a list of zeroed fingerprints, to which it
/// adds. Both lists lie in device memory.
extern const char* const fingerprint_ptx;
/// Each block of the kernel has this many threads.
inline constexpr unsigned fingerprint_threads = 256;
/// This many blocks share one granule.
inline constexpr unsigned parts_of_granule = 16;

} // namespace vgpu::device::nvidia
