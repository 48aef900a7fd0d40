// Counters of a cpu device, for benchmarks.
#pragma once

#include "devices/interface/device.hpp"

#include <cstdint>
#include <string_view>

namespace vgpu::device {

/// Returns the number of instructions that warps have executed in launches that
/// are done, on a device of open_cpu_device(). One warp instruction is up to 32
/// lane instructions.
std::uint64_t executed_instructions(const device& of);

/// Returns the processor level that was chosen for the executor, such as
/// "x86-64-v3".
std::string_view executor_level();

} // namespace vgpu::device
