// printf as kernels call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vgpu::device::cpu {

/// The text of `format` with the arguments as they lie in a kernel's buffer:
/// one after another, each at a multiple of its size (CUDA C++ Programming
/// Guide, "Formatted Output"). `read_string` gives what a %s points to.
/// Returns nothing when the buffer is too short for the format.
std::optional<std::string>
format_printf(std::string_view format, std::span<const std::byte> arguments,
              const std::function<std::string(std::uint64_t)>& read_string);

} // namespace vgpu::device::cpu
