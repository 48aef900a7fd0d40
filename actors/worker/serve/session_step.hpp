// The steps of a session's thread with its calls.
#pragma once

#include <cstdint>

namespace vgpu {

/// Names what a session's thread does with its calls, in every phase of a
/// checkpoint.
///
///             1                     2
///  arriving ────► between_calls ◄────────► in_call
///                      ▲                      │
///                      │ 4                    │ 3
///                      └──── out_of_turn ◄────┘
///
///  1 A client has attached, or the session was resumed. If there is a state,
///  it
///    is restored.
///  2 A call is executed, which may take long.
///  3 It is not the session's turn: the call was not executed.
///  4 The thread has waited for a turn for a while, or has other work.
///
/// Each step may lead to `over`, which is final: the session ends here.
enum class session_step : std::uint8_t {
  arriving,
  between_calls,
  in_call,
  out_of_turn,
  over
};

} // namespace vgpu
