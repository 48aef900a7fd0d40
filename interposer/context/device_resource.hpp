// What of a device contexts may be given a part of: its multiprocessors (CUDA
// driver API, "Green Contexts"). All of it is arithmetic: a vGPU's work runs on
// whichever its device has.
#pragma once

#include "interposer/session/driver_api.hpp"
#include "interposer/session/guest_channel.hpp"
#include "interposer/session/handle_table.hpp"

#include <cstdint>
#include <span>

namespace vgpu::interposer {

/// Some multiprocessors of a device.
struct sm_part {
  int device = 0;
  unsigned first = 0; ///< which of them, so that none is counted twice
  unsigned count = 0;
  unsigned least = 0;      ///< how many a part of it has at least,
  unsigned step = 0;       ///< and by how many more
  std::uint64_t split = 0; ///< which call made it; 0: it can be cut
};

/// All of a device.
sm_part whole_device(int device, const device_facts& facts) noexcept;

/// Tells of it as a program sees it. CUDA_ERROR_INVALID_RESOURCE_TYPE where
/// other things than multiprocessors are asked for, CUDA_ERROR_INVALID_VALUE
/// without a place for the answer.
CUresult tell(const sm_part& what, CUdevResourceType type,
              CUdevResource* out) noexcept;

/// How a part is cut into equal ones.
struct sm_split {
  unsigned groups = 0; ///< as many as there could be
  sm_part group;
};
/// CUDA_ERROR_INVALID_VALUE for flags that contradict each other (others than
/// those are nothing), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for more than
/// there is, and for what was made by cutting.
CUresult cut(const sm_part& from, unsigned flags, unsigned least,
             sm_split& out) noexcept;

/// cuDevSmResourceSplitByCount.
CUresult split(CUdevResource* out, unsigned* groups, const CUdevResource* from,
               CUdevResource* rest, unsigned flags, unsigned least) noexcept;

/// What a descriptor stands for; there is no call that ends one.
handle_table<sm_part>& resource_descriptors() noexcept;
/// cuDevResourceGenerateDesc: all that is in any of them, also where they
/// overlap, or were not cut in one call (driver 580 takes that, whatever the
/// documentation says). CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for parts of
/// several devices.
CUresult join(std::span<const CUdevResource> parts, sm_part& out);

} // namespace vgpu::interposer
