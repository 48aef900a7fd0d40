// The parser, which reads PTX text (PTX ISA 9.0) into a syntax tree. It is a
// recursive descent with one token of look-ahead.
#pragma once

#include "devices/cpu/ptx/ptx_ast.hpp"
#include "devices/cpu/ptx/ptx_lexer.hpp"

#include <optional>
#include <string_view>

namespace vgpu::device::cpu::ptx {

/// Parses a text. Throws syntax_error. `text` may be hostile: nesting, counts
/// and sizes are limited.
module parse(std::string_view text);

/// Returns the type of a name such as "u32", "f16x2" or "pred", or nothing
/// where it names no type.
std::optional<type> parse_type(std::string_view name);

} // namespace vgpu::device::cpu::ptx
