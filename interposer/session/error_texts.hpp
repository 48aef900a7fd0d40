// Names and descriptions of the driver API's error codes.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// Returns a code's name, such as "CUDA_ERROR_INVALID_VALUE", or null for a
/// code that does not exist.
const char* error_name(CUresult code) noexcept;

/// Returns a code's description, such as "invalid argument", or null for a code
/// that does not exist.
const char* error_text(CUresult code) noexcept;

} // namespace vgpu::interposer
