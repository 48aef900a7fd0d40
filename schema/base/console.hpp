// The streams that a session writes to its program by itself: the text of
// kernels, and the times of traced work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vgpu {

/// printf writes to the program's standard output, and a failed assertion to
/// its standard error, as with NVIDIA's driver. The times of traced work
/// (schema/log/work_times.hpp) are for the program's libcuda alone.
enum class console : std::uint8_t { output, error, times };

/// Counts the consoles whose bytes are text.
inline constexpr std::size_t text_console_count = 2;
inline constexpr std::size_t console_count = 3;

} // namespace vgpu
