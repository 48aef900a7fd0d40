// Launching kernels.
#pragma once

#include "interposer/module.hpp"
#include "interposer/stream_event.hpp"
#include "schema/calls.hpp"

#include <cuda.h>

namespace vgpu::interposer {

/// A launch, before it is checked.
struct launch_request {
  CUfunction function = nullptr;
  call::dim3 grid{};
  call::dim3 block{};
  call::dim3 cluster{};
  std::uint32_t shared_bytes = 0;
  bool cooperative = false;
  void** parameters = nullptr;
  void** extra = nullptr;
};

/// Checks all that the driver would reject at once, and appends the launch.
CUresult launch_kernel(stream& in, const launch_request& what);

/// Applies cuLaunchKernelEx's attributes. CUDA_ERROR_NOT_SUPPORTED for those
/// that change what a program may rely on and that nothing here provides.
CUresult apply_attributes(launch_request& to, const CUlaunchConfig& config);

} // namespace vgpu::interposer
