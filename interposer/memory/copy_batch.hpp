// Several copies in one call (cuMemcpyBatchAsync, cuMemcpy3DBatchAsync): all
// are checked before any is made.
#pragma once

#include "interposer/memory/copies.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// Which copy of a batch is wrong; `no_copy` where the batch as a whole is.
inline constexpr std::size_t no_copy = SIZE_MAX;
struct batch_fault {
  CUresult code = CUDA_SUCCESS;
  std::size_t copy = no_copy;
};

/// The arguments of cuMemcpyBatchAsync but the stream.
struct flat_batch {
  const CUdeviceptr* to;
  const CUdeviceptr* from;
  const std::size_t* sizes;
  std::size_t count;
  const CUmemcpyAttributes* attributes;
  const std::size_t* first; ///< of each attribute, the first copy it is for
  std::size_t attribute_count;
};

/// Whether `first` tells of which of `count` things each of `groups` is: it
/// begins with 0 and does not fall.
bool divides(const std::size_t* first, std::size_t groups,
             std::size_t count) noexcept;

/// Brings a batch to single copies, with what the driver checks of them.
batch_fault describe(const flat_batch& from, std::vector<transfer>& out);
batch_fault describe(std::span<const CUDA_MEMCPY3D_BATCH_OP> from,
                     std::vector<transfer>& out);

/// Makes all copies, or none where one is wrong.
batch_fault transfer_all(stream& in, std::span<const transfer> what);

} // namespace vgpu::interposer
