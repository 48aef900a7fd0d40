// Effects of the options of a just-in-time compiler here, and its messages.
#pragma once

#include "devices/cpu/ptx/ptx_ast.hpp"
#include "devices/interface/device.hpp"
#include "schema/base/jit_settings.hpp"

#include <span>
#include <string>

namespace vgpu::device::cpu {

/// Returns the architecture to compile for: that of the device, or another one
/// whose code runs on it too. Returns CUDA_ERROR_INVALID_SOURCE for a target
/// whose machine code this device could not run.
result<unsigned> target_of(const jit_settings& how, unsigned capability);

/// Returns CUDA_ERROR_INVALID_PTX for options that NVIDIA's compiler refuses
/// when it compiles text: a negative level of optimisation, and an option for
/// devices of long ago.
status check_options(const jit_settings& how);

/// Returns the most threads that a block of the kernel may have.
unsigned block_threads(const ptx::function& kernel, const jit_settings& how);
/// Returns the number of registers that the kernel is said to use, of which at
/// most so many hold a value at one time.
unsigned registers_of(const ptx::function& kernel, unsigned most_live,
                      const jit_settings& how);

/// Returns what a compiler says about kernels that it has compiled. It says
/// nothing unless it is asked to be verbose.
std::string info_log(std::span<const kernel_info> kernels,
                     std::uint64_t global_bytes, unsigned target,
                     const jit_settings& how);

/// Returns an error log that ends with these errors.
std::string error_log(const std::string& errors);

} // namespace vgpu::device::cpu
