// Names and sentences of the driver API's error codes.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// "CUDA_ERROR_INVALID_VALUE"; null for a code that does not exist.
const char* error_name(CUresult code) noexcept;

/// "invalid argument"; null for a code that does not exist.
const char* error_text(CUresult code) noexcept;

} // namespace vgpu::interposer
