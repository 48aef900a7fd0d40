// The kernels that read device memory for states.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace vgpu::device::nvidia {

/// Holds a hash of 128 bits over the bytes of a granule and their positions. It
/// is not cryptographic: a program that constructs two granules with the same
/// fingerprint deceives only itself.
struct fingerprint {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const fingerprint&) const = default;
};

/// Is one piece of memory for the kernel `gather`.
struct gathered {
  std::uint64_t from = 0; // its address
  std::uint32_t bytes = 0;
  std::uint32_t place = 0; // in the output, a multiple of gathered_alignment
};
inline constexpr std::size_t gathered_alignment = 16;

/// These are the kernels as PTX text, for any GPU from compute capability 7.0
/// on. All of their parameters are addresses of device memory.
///
/// `fingerprint` is launched with (parts_of_granule, granules) blocks of
/// fingerprint_threads threads. It reads a list of granule addresses, and adds
/// to a list of zeroed fingerprints.
///
/// `gather` is launched with one block of gather_threads threads for each
/// piece. It reads a list of gathered, and copies the pieces to the output.
extern const char* const memory_kernels_ptx;
inline constexpr unsigned fingerprint_threads = 256;
/// This many blocks share one granule.
inline constexpr unsigned parts_of_granule = 16;
inline constexpr unsigned gather_threads = 128;

} // namespace vgpu::device::nvidia
