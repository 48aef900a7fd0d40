// A device's multiprocessors as a resource, of which a context may have a part
// (CUDA driver API, "Green Contexts"). The parts are arithmetic only: a vGPU's
// work runs on any multiprocessor of its device.
#pragma once

#include "interposer/session/driver_api.hpp"
#include "interposer/session/guest_channel.hpp"
#include "interposer/session/handle_table.hpp"

#include <cstdint>
#include <span>

namespace vgpu::interposer {

/// Holds a number of a device's multiprocessors.
struct sm_part {
  int device = 0;
  /// Holds the index of the first one, so that join() counts none twice.
  unsigned first = 0;
  unsigned count = 0;
  /// Holds the smallest number of multiprocessors that a part may have.
  unsigned least = 0;
  /// Holds the number of multiprocessors in one step of a part's size.
  unsigned step = 0;
  /// Identifies the call that cut the part. It is 0 for a part that can still
  /// be cut.
  std::uint64_t split = 0;
};

/// Returns the part that is the whole device.
sm_part whole_device(int device, const device_facts& facts) noexcept;

/// Describes the part as the program sees it. Returns
/// CUDA_ERROR_INVALID_RESOURCE_TYPE for a type other than multiprocessors, and
/// CUDA_ERROR_INVALID_VALUE where `out` is null.
CUresult tell(const sm_part& what, CUdevResourceType type,
              CUdevResource* out) noexcept;

/// Holds the result of cutting a part into equal groups.
struct sm_split {
  /// Holds the largest possible number of groups.
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

/// Returns the process's resource descriptors. CUDA has no call that destroys
/// one.
handle_table<sm_part>& resource_descriptors() noexcept;
/// Serves cuDevResourceGenerateDesc: joins all multiprocessors of the parts. As
/// in driver 580, and unlike the documentation, the parts may overlap or come
/// from several cuts. Returns CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION for
/// parts of several devices.
CUresult join(std::span<const CUdevResource> parts, sm_part& out);

} // namespace vgpu::interposer
