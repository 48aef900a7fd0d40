// The tables of functions that the CUDA runtime asks for by UUID.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// The table, or null when it is not offered. Its address does not change.
const void* export_table(const CUuuid& id) noexcept;

/// With VGPU_LOG=debug: which table was asked for and is not offered.
void say_unknown_table(const CUuuid* id) noexcept;

} // namespace vgpu::interposer
