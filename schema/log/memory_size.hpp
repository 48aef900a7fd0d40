// Sizes shared memory in processes whose files have a limited size.
#pragma once

#include <cstdint>

namespace vgpu {

/// Gives a file of memory (memfd_create) this size. The limit of a process for
/// the size of files (RLIMIT_FSIZE, `ulimit -f`) is meant for disks, but the
/// kernel applies it to memory too. So where the limit is too small it is
/// raised for this step, as far as the process may. No SIGXFSZ comes. Returns
/// false and sets errno where it fails: EFBIG means the limit.
bool size_memory(int fd, std::uint64_t bytes) noexcept;

/// Returns the largest size that an ordinary process can give to a file.
std::uint64_t largest_file() noexcept;

} // namespace vgpu
