// The properties of devices, as the driver reports them.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Returns the process's driver, found, opened and initialised.
result<driver_ptr> started_driver();

/// Returns the name, UUID, memory and attributes of a device.
result<properties> properties_of(const driver& api, CUdevice device);

} // namespace vgpu::device::nvidia
