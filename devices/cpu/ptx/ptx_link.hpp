// The linker, which joins PTX modules that were compiled separately.
#pragma once

#include "devices/cpu/ptx/ptx_ast.hpp"
#include "devices/cpu/ptx/ptx_lexer.hpp"

#include <vector>

namespace vgpu::device::cpu::ptx {

/// Says that valid texts do not fit each other.
class link_error : public syntax_error {
public:
  using syntax_error::syntax_error;
};

/// Links several modules into one. An .extern symbol of one is the .visible or
/// .weak symbol of another. Of several .weak or .common symbols the first
/// counts. Local symbols of different texts never meet. Throws link_error for
/// a symbol that is defined twice. Symbols without a definition remain, and the
/// lowering refuses them where they are used.
module link(std::vector<module> parts);

} // namespace vgpu::device::cpu::ptx
