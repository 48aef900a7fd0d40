// The tables of functions that the CUDA runtime asks for by UUID.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// The table, or null when it is not offered. Its address does not change.
const void* export_table(const CUuuid& id) noexcept;

} // namespace vgpu::interposer
