// Addresses for a process's own mappings, apart from those of others.
#pragma once

#include <cstddef>

namespace vgpu {

/// Returns an address that mmap should prefer, or null when none is left. It is
/// apart from where the kernel places mappings without a preference. A GPU's
/// driver places a program's variables there, and they must lie at the same
/// addresses in the session's next worker, which makes other mappings of its
/// own at other times. Each call returns other addresses. Thread-safe.
void* own_address(std::size_t bytes) noexcept;

} // namespace vgpu
