// Device memory that other processes can import.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Returns the properties with which to create memory on the device so that
/// export_memory() works for it, where the device can export memory at all.
CUmemAllocationProp exportable_memory(const driver& api, CUdevice device);

/// Tells whether memory with these properties can be exported.
bool is_exportable(const CUmemAllocationProp& x) noexcept;

/// Returns a descriptor that another process can import.
result<shared_descriptor> export_memory(const driver& api,
                                        CUmemGenericAllocationHandle memory);

/// Returns the fault for an attempt to share memory that is not exportable.
fault not_exportable();

} // namespace vgpu::device::nvidia
