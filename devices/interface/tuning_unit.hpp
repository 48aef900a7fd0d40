// Optional interface of a device: limits of kernels, and hints for its caches.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace vgpu::device {

/// A device whose limits can be set implements this interface. As with
/// `device`, one thread calls it.
class tuning_unit {
public:
  virtual ~tuning_unit() = default;

  /// Says that the heap of kernels' malloc was placed, moved or given up. It
  /// has no bytes where it was given up.
  using heap_change = std::optional<global_info>;

  /// Sets a limit for work enqueued from now on (CUDA driver API,
  /// cuCtxSetLimit). Returns CUDA_ERROR_INVALID_VALUE for another heap once
  /// kernels that allocate were launched, and CUDA_ERROR_OUT_OF_MEMORY where
  /// the heap has no room. A limit that means nothing here is accepted.
  virtual result<heap_change> set_limit(CUlimit limit, std::uint64_t value) = 0;
  /// Brings back the limits that the device had at first, and empties the heap.
  /// Precondition: all work is done, and no module is loaded.
  virtual heap_change reset_limits() = 0;

  /// Sets the access-policy window of a stream for work enqueued from now on. A
  /// window without bytes ends the earlier one. It is a hint, which a device
  /// without such a cache ignores.
  virtual status set_window(stream_id, const CUaccessPolicyWindow&) {
    return {};
  }

  /// Makes all lines of the cache that persist ordinary ones. It is a hint.
  virtual status reset_cache() { return {}; }
};

} // namespace vgpu::device
