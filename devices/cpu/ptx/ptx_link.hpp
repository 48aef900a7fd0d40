// Joins PTX modules that were compiled apart.
#pragma once

#include "devices/cpu/ptx/ptx_ast.hpp"

#include <vector>

namespace vgpu::device::cpu::ptx {

/// One module out of several, whose .extern symbols are the .visible and .weak
/// ones of the others; of .weak and .common symbols the first is taken, and
/// symbols that only their own text sees never meet those of another.
/// Throws syntax_error for a symbol that is defined twice. Symbols that remain
/// without a definition are for the lowering to refuse, where they are used.
module link(std::vector<module> parts);

} // namespace vgpu::device::cpu::ptx
