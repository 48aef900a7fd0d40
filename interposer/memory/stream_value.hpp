// Words of memory that streams write and wait for (CUDA Driver API, "Stream
// Memory Operations").
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/stream/stream_event.hpp"

#include <cuda.h>

#include <span>

namespace vgpu::interposer {

/// Operations that follow one another in a stream, as cuStreamBatchMemOp takes
/// them.
using value_operations = std::span<const CUstreamBatchMemOpParams>;

/// What the driver checks of them at once: CUDA_ERROR_INVALID_VALUE for an
/// address that is no memory of the program's or not aligned, and for unknown
/// operations and flags; CUDA_ERROR_NOT_SUPPORTED for what the device's
/// attributes do not promise. Where they are `planned`, what a graph will have
/// allocated is memory of the program's too.
CUresult check_operations(const context& in, value_operations what,
                          bool planned);

/// Appends them, in order. Words of device memory are the device's affair;
/// those of pinned and registered memory are the program's own (host_call.hpp).
/// Precondition: they were checked.
CUresult issue_operations(stream& in, value_operations what);

/// Whether one of them waits.
bool any_waits(value_operations what) noexcept;

/// The most that one call takes (cuStreamBatchMemOp: "at most 256").
inline constexpr unsigned most_operations = 256;

} // namespace vgpu::interposer
