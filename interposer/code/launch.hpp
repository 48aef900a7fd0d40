// Launching kernels.
#pragma once

#include "interposer/code/launch_attributes.hpp"
#include "interposer/code/module.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace vgpu::interposer {

/// A parameter block has at most 32764 bytes (CUDA C++ Programming Guide,
/// "__global__ function parameters").
constexpr std::size_t most_parameters = 32768;

/// Holds a parameter block that must be assembled. Most blocks are short, and
/// need no more of the thread's stack than this object, because a program may
/// give its threads small stacks. It is used by one thread.
class parameter_room {
public:
  /// Returns room for one block, aligned to 16. It is not zeroed, because only
  /// filled bytes are read.
  std::byte* take(std::size_t bytes) {
    if (bytes <= short_.size())
      return short_.data();
    long_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return long_.get();
  }

private:
  alignas(16) std::array<std::byte, 1024> short_;
  std::unique_ptr<std::byte[]> long_;
};

/// Describes a launch before its check.
struct launch_request {
  CUfunction function = nullptr;
  launch_shape shape;
  void** parameters = nullptr;
  void** extra = nullptr;
  /// Null for a launch without attributes beside those of its shape.
  const launch_attributes* with = nullptr;
};

/// Describes a launch that passed the driver's checks.
struct prepared_launch {
  function* what = nullptr;
  std::span<const std::byte> parameters; ///< the parameter block
};

/// Finds the clusters of a launch (schema/base/cluster_shapes.hpp), or {0, 0,
/// 0} without clusters. Returns CUDA_ERROR_INVALID_CLUSTER_SIZE for wrong ones.
CUresult clusters_of(const launch_shape& x, const function& f, call::dim3& out);

/// Makes all checks that the driver makes at the call. The parameter block in
/// `out` lies in `room` or in the program's memory.
CUresult prepare(context& in, const launch_request& what, parameter_room& room,
                 prepared_launch& out);

/// Appends a launch that prepare() has checked.
CUresult send_launch(stream& in, const function& what,
                     const launch_shape& shape,
                     std::span<const std::byte> parameters,
                     const launch_attributes* with = nullptr);

/// Prepares the launch and appends it. With CUDA_LAUNCH_BLOCKING it also waits
/// for the kernel, and returns the kernel's error. Precondition: the stream is
/// not captured (graph/captured_work.hpp).
CUresult launch_kernel(stream& in, const launch_request& what);

/// Checks that a launch in this stream may record its events.
CUresult check_events(const stream& in, const launch_attributes& with);
/// Records the events of a launch, after the launch was appended.
CUresult record_events(stream& in, const launch_attributes& with);

} // namespace vgpu::interposer
