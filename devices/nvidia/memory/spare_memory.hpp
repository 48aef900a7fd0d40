// Device memory that the worker takes for a while, beside the program's.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::device::nvidia {

/// Backs addresses of its own with device memory on demand. It reserves them
/// once, because where the driver places modules must not depend on when this
/// memory is used. Not thread-safe; the calling thread has the context current.
class spare_memory {
public:
  spare_memory(driver_ptr api, CUdevice device);

  /// Reserves addresses for as much memory as the device has.
  status reserve();
  /// Backs the first so many bytes, in whole granules. Precondition: reserved,
  /// and nothing is backed. After a fault nothing is.
  status take(std::uint64_t bytes);
  /// Returns all of the memory to the driver. Nothing may be using it.
  void give_back() noexcept;

  /// Returns the first address, or 0 where nothing is reserved.
  device_address base() const noexcept { return base_; }
  bool taken() const noexcept { return !blocks_.empty(); }

private:
  struct block {
    device_address at;
    std::uint64_t bytes;
    CUmemGenericAllocationHandle memory;
  };
  status add(device_address at, std::uint64_t bytes);

  driver_ptr api_;
  CUdevice device_;
  CUmemAllocationProp properties_{};
  device_address base_ = 0;
  std::uint64_t reserved_ = 0;
  std::vector<block> blocks_;
};

} // namespace vgpu::device::nvidia
