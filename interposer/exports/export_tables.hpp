// The tables of functions that the CUDA runtime requests by UUID.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// Returns a table, or null where this library does not have it. A table's
/// address never changes.
const void* export_table(const CUuuid& id) noexcept;

/// Logs, with VGPU_LOG=debug, that a requested table does not exist.
void say_unknown_table(const CUuuid* id) noexcept;

} // namespace vgpu::interposer
