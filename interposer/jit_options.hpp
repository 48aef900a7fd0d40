// Options of the just-in-time compiler. The worker's driver chooses for
// itself; what the program expects to be filled in is filled in.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// Empties the log buffers and zeroes the times that the options ask for.
/// CUDA_ERROR_INVALID_VALUE for an option that does not exist.
CUresult answer_jit_options(unsigned count, const CUjit_option* options,
                            void** values) noexcept;

} // namespace vgpu::interposer
