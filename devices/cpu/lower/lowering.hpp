// Lowering of a PTX module to a program that warps execute.
#pragma once

#include "devices/cpu/lower/program.hpp"
#include "devices/cpu/ptx/ptx_ast.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace vgpu::device::cpu {

/// The addresses of the module's .global and .const variables, by name.
using symbol_addresses = std::unordered_map<std::string, std::uint64_t>;

/// Says whether a text is all there is, or is linked with others later. The
/// program of a part is only good for finding errors.
enum class extent_of_text : std::uint8_t { whole, part };

/// Lowers a module; its functions keep their order. Throws ptx::syntax_error,
/// which names the instruction, the function and the line, for code that is
/// wrong or not supported. A part may call functions that it only declares.
program lower(const ptx::module& from, const symbol_addresses& addresses,
              extent_of_text whole = extent_of_text::whole);

/// Returns the address that stands for a function's name, or 0 where the module
/// has no such function.
std::uint64_t function_address(const ptx::module& in, const std::string& name);

} // namespace vgpu::device::cpu
