// Kernels that are not the program's.
#pragma once

#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Loads the one kernel of a PTX text, and its code, so that its first launch
/// waits for nothing: while it loads code the driver waits for all of the
/// context's work. To be called before there is any. What is loaded stays.
result<CUfunction> load_own_kernel(const driver_ptr& api, const char* ptx);

} // namespace vgpu::device::nvidia
