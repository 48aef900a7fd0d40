// Words that kernels set by cudaGraphSetConditional.
#pragma once

#include "devices/device.hpp"
#include "devices/nvidia/driver.hpp"
#include "devices/nvidia/physical.hpp"
#include "schema/conditions.hpp"

namespace vgpu::device::nvidia {

/// The words have a second place among the device's addresses, where the
/// driver's own function finds them (README.md, "Conditions"). One thread,
/// which has the context.
class conditions {
public:
  conditions(driver_ptr api, CUdevice device, physical_memory& memories);

  /// Loads the kernel that looks whether the driver does as it is known to, on
  /// devices of which something is known. No program's module was loaded yet.
  void open(const properties& of);
  /// See condition_unit. Waits for a kernel of its own.
  status set(memory_id memory, device_address place);
  /// That memory goes.
  void forget(memory_id memory);

private:
  status show(memory_id memory, device_address place);
  status look(device_address place);
  void hide(device_address place);

  driver_ptr api_;
  CUdevice device_;
  physical_memory& memories_;
  CUfunction kernel_ = nullptr;
  memory_id memory_{};
  device_address place_ = 0;
};

} // namespace vgpu::device::nvidia
