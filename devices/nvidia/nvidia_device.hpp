// A real GPU, driven through NVIDIA's own driver.
#pragma once

#include "devices/interface/device.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu::device {

/// Whether a driver lies on this host. Looks at files only.
bool nvidia_driver_present();

/// What the driver tells of all its devices, in its order. Opens the driver in
/// this process, but no device: no memory of a device is used.
result<std::vector<properties>> nvidia_properties();

/// Opens a session's part of the device with this ordinal, in the device's
/// primary context, which is then this process's until it ends. The quota is
/// its caller's to keep. One device of an ordinal a process. Those of
/// `session`, ordinals too, that can reach this one's memory (by NVLink or
/// PCIe) may be the place of copies to and from it.
result<std::unique_ptr<device>>
open_nvidia_device(int ordinal, const std::vector<int>& session = {});

/// Whether the driver of this process, which has opened a device, could put it
/// off its GPUs as it is, for another process that asks for that.
bool nvidia_puts_aside();
/// What that other process does (nvidia/checkpoint.hpp): opens the driver in
/// this process, but no device.
status nvidia_put_aside(int pid);
status nvidia_bring_back(int pid);

/// Properties as text that read_properties() understands, for a process that
/// must not open the driver itself.
std::string write_properties(const std::vector<properties>& all);
result<std::vector<properties>> read_properties(const std::string& text);

} // namespace vgpu::device
