// What the driver tells of its devices.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// The process's driver, found, opened and initialised.
result<driver_ptr> started_driver();

/// Name, UUID, memory and attributes of a device.
result<properties> properties_of(const driver& api, CUdevice device);

} // namespace vgpu::device::nvidia
