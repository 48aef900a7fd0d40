#pragma once

namespace vgpu {

/// Returns the number of the host's processors on which the calling thread may
/// run (sched_getaffinity(2)). A cpuset or taskset(1) may reduce it. Returns 1
/// where the kernel does not say. Thread-safe.
unsigned own_processors() noexcept;

} // namespace vgpu
