// Kernels that belong to this project, not to the program.
#pragma once

#include "devices/nvidia/driver/driver.hpp"

#include <initializer_list>
#include <vector>

namespace vgpu::device::nvidia {

/// Loads these kernels of a PTX text together with their code, so that their
/// first launches do not wait. The driver waits for all of the context's work
/// while it loads code, so the caller loads before there is any work. The
/// kernels stay loaded. Returns them in the order of their names.
result<std::vector<CUfunction>>
load_own_kernels(const driver_ptr& api, const char* ptx,
                 std::initializer_list<const char*> names);

} // namespace vgpu::device::nvidia
