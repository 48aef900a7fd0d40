// Optional interface of a device: memory that the program maps by itself.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>

namespace vgpu::device {

/// A device with virtual memory management implements this interface (CUDA
/// driver API, "Virtual Memory Management"). As with `device`, one thread calls
/// it. Sizes, offsets and addresses are multiples of granule_bytes. Addresses
/// lie in the window, where nothing else is mapped.
class memory_unit {
public:
  virtual ~memory_unit() = default;

  /// Creates zeroed memory without an address. Returns CUDA_ERROR_OUT_OF_MEMORY
  /// when there is not enough.
  virtual status create_memory(memory_id id, std::uint64_t bytes) = 0;
  /// Destroys the handle. The memory itself is freed once it is mapped nowhere.
  virtual status destroy_memory(memory_id id) = 0;

  /// Maps the memory as a whole, which has `bytes` bytes, without access to it.
  /// The same memory may be mapped at several addresses. A part cannot be
  /// mapped, because NVIDIA's driver refuses that.
  virtual status map_memory(device_address address, std::uint64_t bytes,
                            memory_id id) = 0;
  /// Maps attached host memory of this process, at `from`, to further
  /// addresses, without access to it there. The memory is a shared mapping of
  /// the process. Returns CUDA_ERROR_NOT_SUPPORTED where the device cannot;
  /// such a device has
  /// CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED as 0.
  virtual status map_host(device_address address, std::uint64_t bytes,
                          device_address from) = 0;
  /// Unmaps the range of one map_memory() or map_host(). The caller has waited
  /// for the work that uses it.
  virtual status unmap_memory(device_address address, std::uint64_t bytes) = 0;
  /// Sets the access of kernels and copies to [address, address + bytes), the
  /// range of one map_memory() or map_host().
  virtual status set_access(device_address address, std::uint64_t bytes,
                            memory_access access) = 0;
};

} // namespace vgpu::device
