// Whether a launch is one that the device can run.
#pragma once

#include "devices/cpu/module_store.hpp"
#include "devices/device.hpp"

namespace vgpu::device::cpu {

/// What cuLaunchKernel refuses at once: shapes and sizes beyond the device's or
/// the kernel's own limits, a short parameter block, a cooperative grid that
/// does not fit all at once.
status check_launch(const launch& x, const loaded_kernel& k,
                    unsigned multiprocessors);

} // namespace vgpu::device::cpu
