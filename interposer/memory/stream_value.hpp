// Words of memory that streams write and wait for (CUDA driver API, "Stream
// Memory Operations").
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/stream/stream_event.hpp"

#include <cuda.h>

#include <span>

namespace vgpu::interposer {

/// Holds consecutive operations in a stream, as cuStreamBatchMemOp takes them.
using value_operations = std::span<const CUstreamBatchMemOpParams>;

/// Makes the driver's checks of the operations. Returns
/// CUDA_ERROR_INVALID_VALUE for an address that is unaligned or not the
/// program's memory, and for unknown operations and flags;
/// CUDA_ERROR_NOT_SUPPORTED for operations that the device's attributes do not
/// promise. With `planned`, memory that a graph will allocate counts as the
/// program's.
CUresult check_operations(const context& in, value_operations what,
                          bool planned);

/// Appends the operations, in order. The device handles words of device memory,
/// and the interposer words of pinned and registered memory (host_call.hpp).
/// Precondition: the operations were checked.
CUresult issue_operations(stream& in, value_operations what);

/// Tells whether one of the operations waits.
bool any_waits(value_operations what) noexcept;

/// One call takes at most this many (cuStreamBatchMemOp: "at most 256").
inline constexpr unsigned most_operations = 256;

} // namespace vgpu::interposer
