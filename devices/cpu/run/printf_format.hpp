// printf, as kernels call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vgpu::device::cpu {

/// Formats text with arguments from a kernel's buffer, where each lies after
/// the other at a multiple of its size (CUDA C++ Programming Guide, "Formatted
/// Output"). `read_string` returns the text that a %s points to. Returns
/// nothing where the buffer is too short for the format.
std::optional<std::string>
format_printf(std::string_view format, std::span<const std::byte> arguments,
              const std::function<std::string(std::uint64_t)>& read_string);

} // namespace vgpu::device::cpu
