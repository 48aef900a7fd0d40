// What a device tells of a module, as the program is sent it.
#pragma once

#include "devices/interface/device.hpp"

#include <cstdint>
#include <vector>

namespace vgpu {

/// A ModuleFacts message (data.capnp).
std::vector<std::uint64_t> encode_facts(const device::module_info& module);

} // namespace vgpu
