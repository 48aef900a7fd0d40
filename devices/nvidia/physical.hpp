// Memory that a program places in its window by itself.
#pragma once

#include "devices/nvidia/driver.hpp"
#include "devices/nvidia/window.hpp"
#include "schema/memory.hpp"

#include <cstdint>
#include <unordered_map>

namespace vgpu::device::nvidia {

/// The driver's own handles, mapped at the program's addresses. One thread,
/// which has the context.
class physical_memory {
public:
  physical_memory(driver_ptr api, CUdevice device, window& into);

  status create(memory_id id, std::uint64_t bytes);
  /// The driver keeps what is mapped.
  status destroy(memory_id id);
  status map(device_address address, std::uint64_t bytes, memory_id id);
  status unmap(device_address address, std::uint64_t bytes);
  status set_access(device_address address, std::uint64_t bytes,
                    memory_access access);

private:
  driver_ptr api_;
  window& into_;
  CUmemAllocationProp properties_{};
  std::unordered_map<memory_id, CUmemGenericAllocationHandle> memories_;
};

} // namespace vgpu::device::nvidia
