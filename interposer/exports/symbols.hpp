// The addresses of the exported functions. Knows nothing of cuda.h, whose
// macros would rename them.
#pragma once

#include <cstddef>

namespace vgpu::interposer {

/// The function of the catalogue's entry of this index.
void* symbol_address(std::size_t index) noexcept;

} // namespace vgpu::interposer
