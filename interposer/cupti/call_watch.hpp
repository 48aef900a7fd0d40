// The calls of the program as the tool sees them: callbacks, and who called.
#pragma once

#include "interposer/cupti/cupti_bridge.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace vgpu::cupti {

/// Returns the functions that watch the program's calls.
const interposer::cupti_listener& call_watch() noexcept;

/// Says by whom a call was made: activity::mark. A runtime's call shows as the
/// runtime's function, as with NVIDIA's library.
enum class caller : std::uint64_t { unknown = 0, program = 1, runtime = 2 };

/// Adds to the tool's numbers of this thread.
void push_external(std::uint32_t of, std::uint64_t id);
/// Removes the last one, or returns nothing where there is none.
std::optional<std::uint64_t> pop_external(std::uint32_t of);

} // namespace vgpu::cupti
