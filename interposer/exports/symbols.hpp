// The addresses of the exported functions. This file does not include cuda.h,
// whose macros would rename them.
#pragma once

#include <cstddef>

namespace vgpu::interposer {

/// Returns the function of the catalogue's entry at this index.
void* symbol_address(std::size_t index) noexcept;

} // namespace vgpu::interposer
