// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: the devices of the session that
// the program sees, and their order.
#pragma once

#include "interposer/session/guest_channel.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vgpu::interposer {

/// Returns indices of `devices` in the program's order. `text` lists indices or
/// UUIDs, separated by commas. A UUID may be cut short ("GPU-8932f937") as long
/// as it is unique. The list ends at the first entry that names no device (CUDA
/// C++ Programming Guide, "CUDA Environment Variables"; in finer points this
/// follows driver 580). The fault is the result of cuInit: CUDA_ERROR_NO_DEVICE
/// where no device is left, CUDA_ERROR_INVALID_DEVICE where a device is named
/// twice.
result<std::vector<std::uint8_t>>
visible_devices(std::string_view text, std::span<const device_facts> devices);

/// Tells whether CUDA_DEVICE_ORDER may have this value. The driver refuses to
/// start with any other, an empty one included.
bool is_device_order(std::string_view text) noexcept;

} // namespace vgpu::interposer
