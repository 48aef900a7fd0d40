// How many descriptors a process may have.
#pragma once

namespace vgpu {

/// What is shared with other processes, or handed over, is a descriptor each,
/// and some systems begin with a thousand: as many as are needed, where the
/// system lets it have them.
void allow_many_descriptors() noexcept;

} // namespace vgpu
