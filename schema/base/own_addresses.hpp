// Where a process maps what is its own, so that it is out of the way of others.
#pragma once

#include <cstddef>

namespace vgpu {

/// An address for mmap to prefer: apart from where the kernel puts what has no
/// preference. There a GPU's driver finds room for a program's variables, and
/// they must lie in the same places in the session's next worker, which maps
/// other things of its own, at other times. Each call names other addresses;
/// null when there are none left. Thread-safe.
void* own_address(std::size_t bytes) noexcept;

} // namespace vgpu
