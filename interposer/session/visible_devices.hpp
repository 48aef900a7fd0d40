// CUDA_VISIBLE_DEVICES: which of the session's devices the program sees, and in
// which order.
#pragma once

#include "interposer/session/guest_channel.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vgpu::interposer {

/// Indices into `devices`, in the order in which the program counts them.
/// `text` is a list of indices, or of UUIDs ("GPU-8932f937", as many digits as
/// make it unique), with commas between them; what stands behind one that
/// names no device is not looked at (CUDA C++ Programming Guide, "CUDA
/// Environment Variables"; its finer points as driver 580 has them). The fault
/// is what cuInit answers: CUDA_ERROR_NO_DEVICE where none is left,
/// CUDA_ERROR_INVALID_DEVICE where one is named twice.
result<std::vector<std::uint8_t>>
visible_devices(std::string_view text, std::span<const device_facts> devices);

} // namespace vgpu::interposer
