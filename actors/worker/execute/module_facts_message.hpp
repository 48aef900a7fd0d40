// A device's facts about a module, as the program receives them.
#pragma once

#include "devices/interface/device.hpp"

#include <cstdint>
#include <vector>

namespace vgpu {

/// Returns a ModuleFacts message (data.capnp).
std::vector<std::uint64_t> encode_facts(const device::module_info& module);

} // namespace vgpu
