// The driver's functions that kernels call, such as printf, assert and malloc.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <string_view>

namespace vgpu::device::cpu {

/// Returns the system function of this name, or system_call::none.
system_call find_system_call(std::string_view name);

/// Executes the call of instr::extra for the active lanes.
const instr* system_call_of(warp& w, const instr* in);

} // namespace vgpu::device::cpu
