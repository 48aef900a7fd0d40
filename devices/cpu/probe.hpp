// How much a cpu device has executed, for benchmarks.
#pragma once

#include "devices/interface/device.hpp"

#include <cstdint>
#include <string_view>

namespace vgpu::device {

/// Instructions that warps have executed on a device made by open_cpu_device,
/// in launches that are done; 32 lane-instructions each.
std::uint64_t executed_instructions(const device& of);

/// The level of processor that the executor was chosen for: "x86-64-v3".
std::string_view executor_level();

} // namespace vgpu::device
