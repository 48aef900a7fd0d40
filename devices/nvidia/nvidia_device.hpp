// An NVIDIA GPU, driven through NVIDIA's own driver.
#pragma once

#include "devices/interface/device.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu::device {

/// Tells whether a driver is installed on this host. Looks at files only.
bool nvidia_driver_present();

/// Returns the properties of all GPUs, in the driver's order. Opens the driver
/// in this process but no device, so it uses no device memory.
result<std::vector<properties>> nvidia_properties();

/// Opens a session's part of the GPU with this ordinal, in the GPU's primary
/// context, which the process then holds until it ends. The caller enforces the
/// quota. A process opens an ordinal once. `session` lists the ordinals of the
/// session's GPUs. Each GPU of the list that reaches this GPU's memory by
/// NVLink or PCIe may copy to and from it.
result<std::unique_ptr<device>>
open_nvidia_device(int ordinal, const std::vector<int>& session = {});

/// Tells whether the driver of this process, which has opened a device, can
/// checkpoint the process when another process asks for it.
bool nvidia_can_checkpoint();
/// Checkpoints another process as checkpoint_process() does
/// (devices/nvidia/checkpoint.hpp). Opens the driver in this process but no
/// device.
status nvidia_checkpoint(int pid);
/// Restores the process as restore_process() does.
status nvidia_restore(int pid);

/// Returns the properties as text that read_properties() understands, for a
/// process that must not open the driver itself.
std::string write_properties(const std::vector<properties>& all);
/// Reads the properties from text of write_properties().
result<std::vector<properties>> read_properties(const std::string& text);

} // namespace vgpu::device
