// What a session's thread is doing with its calls.
#pragma once

#include <cstdint>

namespace vgpu {

/// Names what a session's thread is doing with its calls, in every phase of a
/// checkpoint.
///
///             1                     2
///  arriving ────► between_calls ◄────────► in_call
///                      ▲                      │
///                      │ 4                    │ 3
///                      └──── out_of_turn ◄────┘
///
///  1 A client has shown the lease, or the session was resumed, and what there
///    was to restore is restored.
///  2 A call is executed, which may take long.
///  3 It is not the session's turn: the call was not executed.
///  4 The thread has waited for a turn for a while, or others need it.
///
/// Each step may lead to `over`: the session ends here. None follows that one.
enum class session_step : std::uint8_t {
  arriving,
  between_calls,
  in_call,
  out_of_turn,
  over
};

} // namespace vgpu
