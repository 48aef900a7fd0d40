// The number of descriptors that a process may have.
#pragma once

namespace vgpu {

/// Raises this process's limit of descriptors as far as the system allows. Each
/// object that is shared with or passed to other processes needs a descriptor,
/// and some systems start with a limit of a thousand.
void allow_many_descriptors() noexcept;

} // namespace vgpu
