// Resources of a device that a context may be given a part of: its
// multiprocessors (CUDA driver API, "Green Contexts"). This is arithmetic only:
// a vGPU's work runs on any multiprocessor of its device.
#pragma once

#include "interposer/session/driver_api.hpp"
#include "interposer/session/guest_channel.hpp"
#include "interposer/session/handle_table.hpp"

#include <cstdint>
#include <span>

namespace vgpu::interposer {

/// A part is a number of a device's multiprocessors.
struct sm_part {
  int device = 0;
  /// This is the index of the first, so that join() counts none twice.
  unsigned first = 0;
  unsigned count = 0;
  /// This is the smallest number of multiprocessors that a part may have.
  unsigned least = 0;
  /// A part grows by steps of this many multiprocessors.
  unsigned step = 0;
  /// This names the call that cut the part; a part with 0 can be cut.
  std::uint64_t split = 0;
};

/// Returns the part that is the whole device.
sm_part whole_device(int device, const device_facts& facts) noexcept;

/// Describes the part as the program sees it. Returns
/// CUDA_ERROR_INVALID_RESOURCE_TYPE for a type other than multiprocessors, and
/// CUDA_ERROR_INVALID_VALUE where `out` is null.
CUresult tell(const sm_part& what, CUdevResourceType type,
              CUdevResource* out) noexcept;

/// This is the result of cutting a part into equal groups.
struct sm_split {
  /// This is the largest possible number of groups.
  unsigned groups = 0;
  sm_part group;
};
/// Cuts a part into groups of at least `least` multiprocessors. Returns
/// CUDA_ERROR_INVALID_VALUE for flags that contradict each other (it ignores
/// unknown ones), and CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION where `least`
/// exceeds the part, or where `from` itself was cut.
CUresult cut(const sm_part& from, unsigned flags, unsigned least,
             sm_split& out) noexcept;

/// Serves cuDevSmResourceSplitByCount.
CUresult split(CUdevResource* out, unsigned* groups, const CUdevResource* from,
               CUdevResource* rest, unsigned flags, unsigned least) noexcept;

/// Returns the process's resource descriptors. No call ends a descriptor.
handle_table<sm_part>& resource_descriptors() noexcept;
/// Serves cuDevResourceGenerateDesc: joins all multiprocessors of the parts. As
/// in driver 580, and unlike the documentation, the parts may overlap or come
/// from several cuts. Returns CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for
/// parts of several devices.
CUresult join(std::span<const CUdevResource> parts, sm_part& out);

} // namespace vgpu::interposer
