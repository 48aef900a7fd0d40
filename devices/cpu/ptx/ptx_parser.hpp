// Reads PTX text (PTX ISA 9.0) into an AST. Recursive descent, one token of
// look-ahead.
#pragma once

#include "devices/cpu/ptx/ptx_ast.hpp"
#include "devices/cpu/ptx/ptx_lexer.hpp"

#include <optional>
#include <string_view>

namespace vgpu::device::cpu::ptx {

/// Throws syntax_error. `text` may be hostile: nesting, counts and sizes have
/// limits.
module parse(std::string_view text);

/// "u32", "f16x2", "pred"; nothing when it names no type.
std::optional<type> parse_type(std::string_view name);

} // namespace vgpu::device::cpu::ptx
