// Launching kernels.
#pragma once

#include "interposer/code/module.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <cstddef>
#include <span>

namespace vgpu::interposer {

/// A parameter block is at most 32764 bytes (CUDA C++ Programming Guide,
/// "__global__ function parameters").
constexpr std::size_t most_parameters = 32768;

struct launch_shape {
  call::dim3 grid{};
  call::dim3 block{};
  call::dim3 cluster{0, 0, 0}; // none asked for
  std::uint32_t shared_bytes = 0;
  bool cooperative = false;
};

/// A launch, before it is checked.
struct launch_request {
  CUfunction function = nullptr;
  launch_shape shape;
  void** parameters = nullptr;
  void** extra = nullptr;
};

/// One that the driver would take.
struct prepared_launch {
  function* what = nullptr;
  std::span<const std::byte> parameters; ///< the parameter block
};

/// The clusters of a launch by schema/base/cluster_shapes.hpp; {0, 0, 0}
/// without. CUDA_ERROR_INVALID_CLUSTER_SIZE where something is wrong with them.
CUresult clusters_of(const launch_shape& x, const function& f, call::dim3& out);

/// Checks all that the driver would reject at once. `room`, of most_parameters
/// bytes aligned to 16, is where the block is put together if it must be.
CUresult prepare(context& in, const launch_request& what, std::byte* room,
                 prepared_launch& out);

/// Appends a launch that was prepared once.
CUresult send_launch(stream& in, const function& what,
                     const launch_shape& shape,
                     std::span<const std::byte> parameters);

/// Prepares the launch and appends it. Precondition: the stream is not captured
/// (graph/captured_work.hpp).
CUresult launch_kernel(stream& in, const launch_request& what);

/// Applies cuLaunchKernelEx's attributes. CUDA_ERROR_NOT_SUPPORTED for those
/// that change what a program may rely on and that nothing here provides.
CUresult apply_attributes(launch_shape& to, const CUlaunchConfig& config);

} // namespace vgpu::interposer
