// From a PTX module to a program that warps execute.
#pragma once

#include "devices/cpu/lower/program.hpp"
#include "devices/cpu/ptx/ptx_ast.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace vgpu::device::cpu {

/// Where the module's .global and .const variables lie.
using symbol_addresses = std::unordered_map<std::string, std::uint64_t>;

/// Functions come in the order of the module's. Throws ptx::syntax_error that
/// names the instruction, the function and the line of what is not supported
/// or wrong.
program lower(const ptx::module& from, const symbol_addresses& addresses);

/// The address that a function's name stands for.
std::uint64_t function_address(const ptx::module& in, const std::string& name);

} // namespace vgpu::device::cpu
