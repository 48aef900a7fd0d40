// The number of descriptors that a process may have.
#pragma once

#include <cstdint>

namespace vgpu {

/// Raises this process's limit of descriptors to `wanted`, as far as the system
/// allows. Each connection, and each object that is shared with or passed to
/// other processes, needs a descriptor, and some systems start with a limit of
/// a thousand.
void allow_many_descriptors(std::uint64_t wanted = 65'536) noexcept;

} // namespace vgpu
