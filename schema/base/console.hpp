// The two text streams of kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vgpu {

/// printf writes to the program's standard output, and a failed assertion to
/// its standard error, as with NVIDIA's driver.
enum class console : std::uint8_t { output, error };

inline constexpr std::size_t console_count = 2;

} // namespace vgpu
