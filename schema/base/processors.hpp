#pragma once

namespace vgpu {

/// How many of the host's processors the calling thread may run on, which a
/// cpuset or taskset(1) makes fewer than the host has: sched_getaffinity(2).
/// 1 where the kernel does not say. Thread-safe.
unsigned own_processors() noexcept;

} // namespace vgpu
