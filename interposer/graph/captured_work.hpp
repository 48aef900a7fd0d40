// Work that a stream takes according to its state: it is appended to the log,
// or added to the stream's capture. Entry points call these, so that the code
// that appends work knows nothing of capture.
#pragma once

#include "interposer/code/launch.hpp"
#include "interposer/memory/copies.hpp"
#include "interposer/memory/stream_value.hpp"

#include <cuda.h>

#include <cstdint>

namespace vgpu::interposer {

// -- under capture. Precondition: in.is_captured()
// -----------------------------------------------------------------------------

/// Adds a kernel node, after all checks that the driver makes of a launch.
CUresult capture_launch(stream& in, const launch_request& what);
/// Adds a copy node. Breaks the capture where the copy is one that waits.
CUresult capture_transfer(stream& in, const transfer& what);
/// Adds a fill node. The arguments are those of fill_bytes().
CUresult capture_fill(stream& in, const rows& to, std::uint32_t value,
                      std::uint32_t element_bytes, const call::extent& size);
/// Adds one node for all of these operations.
CUresult capture_operations(stream& in, value_operations what);

// -- whether the stream is captured or not
// -----------------------------------------------------------------------------

/// Launches or captures a kernel, for cuLaunchKernel and related calls.
inline CUresult launch_in_stream(stream& in, const launch_request& what) {
  return in.is_captured() ? capture_launch(in, what) : launch_kernel(in, what);
}

/// Makes or captures a copy, for cuMemcpy and related calls.
inline CUresult transfer_in_stream(stream& in, const transfer& what) {
  return in.is_captured() ? capture_transfer(in, what)
                          : transfer_bytes(in, what);
}

/// Makes or captures a fill, for cuMemset and related calls. A captured fill
/// never waits.
inline CUresult fill_in_stream(stream& in, const rows& to, std::uint32_t value,
                               std::uint32_t element_bytes,
                               const call::extent& size, bool async) {
  return in.is_captured()
             ? capture_fill(in, to, value, element_bytes, size)
             : fill_bytes(in, to, value, element_bytes, size, async);
}

/// Checks operations and then appends or captures them, for cuStreamBatchMemOp
/// and related calls.
inline CUresult operate_in_stream(stream& in, value_operations what) {
  if (in.is_captured())
    return capture_operations(in, what);
  auto code = check_operations(in.owner, what, false);
  return code == CUDA_SUCCESS ? issue_operations(in, what) : code;
}

} // namespace vgpu::interposer
