// The two streams that kernels write text to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vgpu {

/// printf goes to the program's standard output, a failed assertion's message
/// to its standard error, as the driver has it.
enum class console : std::uint8_t { output, error };

inline constexpr std::size_t console_count = 2;

} // namespace vgpu
