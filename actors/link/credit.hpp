// How much a client may send to a worker before the worker has executed it.
#pragma once

#include <cstdint>

namespace vgpu {

/// Limits the bytes of calls that a client has sent and that its worker may
/// still need. The worker reports the position before which it needs nothing,
/// and drops what exceeds the credit.
inline constexpr std::uint64_t call_window = std::uint64_t{64} << 20;
/// Gives the longest range of calls that may begin within the window: one
/// frame, or a call that is longer.
inline constexpr std::uint64_t longest_call_range = std::uint64_t{8} << 20;

} // namespace vgpu
