// Memory of the real device that other processes can have too.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Of memory on the device: such that export_memory() can be called for it,
/// where the device's memory can be exported at all.
CUmemAllocationProp exportable_memory(const driver& api, CUdevice device);

/// Whether it says so.
bool is_exportable(const CUmemAllocationProp& x) noexcept;

/// A descriptor that another process can import.
result<shared_descriptor> export_memory(const driver& api,
                                        CUmemGenericAllocationHandle memory);

/// For who is asked to share what is not exportable.
fault not_exportable();

} // namespace vgpu::device::nvidia
