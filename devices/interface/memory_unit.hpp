// Memory that a program places in addresses by itself: what a device can do
// besides device.hpp.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>

namespace vgpu::device {

/// A device that has virtual memory management is one of these too. Called as
/// the device is: by one thread. Sizes, offsets and addresses are multiples of
/// granule_bytes; addresses lie in the window, where nothing else is mapped.
class memory_unit {
public:
  virtual ~memory_unit() = default;

  /// Makes zeroed memory without an address. CUDA_ERROR_OUT_OF_MEMORY when
  /// there is not enough.
  virtual status create_memory(memory_id id, std::uint64_t bytes) = 0;
  /// The handle is gone; the memory goes when it is mapped nowhere.
  virtual status destroy_memory(memory_id id) = 0;

  /// Maps the memory, which has so many bytes, without access to it. The same
  /// memory may be mapped at several places. Never a part of it: NVIDIA's
  /// driver refuses that.
  virtual status map_memory(device_address address, std::uint64_t bytes,
                            memory_id id) = 0;
  /// Takes away what one map_memory() made. The caller has waited for the work
  /// that uses it.
  virtual status unmap_memory(device_address address, std::uint64_t bytes) = 0;
  /// What kernels and copies may do at [address, address + bytes), which one
  /// map_memory() made.
  virtual status set_access(device_address address, std::uint64_t bytes,
                            memory_access access) = 0;
};

} // namespace vgpu::device
