// Several copies in one call (cuMemcpyBatchAsync, cuMemcpy3DBatchAsync). All
// copies are checked before the first is made.
#pragma once

#include "interposer/memory/copies.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// Marks, in batch_fault::copy, that the batch as a whole is wrong.
inline constexpr std::size_t no_copy = SIZE_MAX;
/// Says which copy of a batch is wrong, and why.
struct batch_fault {
  CUresult code = CUDA_SUCCESS;
  std::size_t copy = no_copy;
};

/// Holds the arguments of cuMemcpyBatchAsync without the stream.
struct flat_batch {
  const CUdeviceptr* to;
  const CUdeviceptr* from;
  const std::size_t* sizes;
  std::size_t count;
  const CUmemcpyAttributes* attributes;
  /// Holds, for each attribute, the index of the first copy that it applies to.
  const std::size_t* first;
  std::size_t attribute_count;
};

/// Tells whether `first`, the first index of each of `groups` groups, divides
/// `count` elements: it begins with 0 and never decreases.
bool divides(const std::size_t* first, std::size_t groups,
             std::size_t count) noexcept;

/// Converts a batch to single copies, after the driver's checks.
batch_fault describe(const flat_batch& from, std::vector<transfer>& out);
batch_fault describe(std::span<const CUDA_MEMCPY3D_BATCH_OP> from,
                     std::vector<transfer>& out);

/// Makes all copies, or none where one is wrong.
batch_fault transfer_all(stream& in, std::span<const transfer> what);

} // namespace vgpu::interposer
