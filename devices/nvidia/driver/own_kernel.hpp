// Kernels that belong to this project, not to the program.
#pragma once

#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Loads the one kernel of a PTX text together with its code, so that its first
/// launch does not wait. The driver waits for all of the context's work while
/// it loads code, so the caller loads before there is any work. The kernel
/// stays loaded.
result<CUfunction> load_own_kernel(const driver_ptr& api, const char* ptx);

} // namespace vgpu::device::nvidia
