// What kernels call in the driver: printf and assert.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <string_view>

namespace vgpu::device::cpu {

/// The system function of that name, or none.
system_call find_system_call(std::string_view name);

/// Executes instr::extra's call for the active lanes.
const instr* system_call_of(warp& w, const instr* in);

} // namespace vgpu::device::cpu
