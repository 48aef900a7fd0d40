// Where a session's worker is with a checkpoint.
#pragma once

#include <cstdint>

namespace vgpu {

/// Whether a worker executes calls, at a call's boundary, and why not.
///
///                  ┌────── 5 ──────┐
///             1    ▼       2       │       3              4
///  running ─┬──► dry_run ───┬───► copying ───┬───► stopping ───► settling
///           └───────────────┴────────────────┘                     │   │
///                                                                7 │   │ 8
///      6                                                           │   │
///  ◄──────── stopped ◄─────────────────────────────────────────────┘   │
///                                                                      │
///      10              9                       8                       │
///  ◄──────── returning ◄──── checkpointed ◄──────── releasing ◄────────┘
///               │  11          ▲  ▲                   │   │
///               └──────────────┘  └─── recalled ◄─────┘   │ 13
///                                             12          ▼
///                                                      running
///
///  1 A checkpoint is ordered, and a driver placed variables of the session: a
///    dry run tries whether another worker would get them in the same places.
///  2 The devices notice what is written: memory is copied while calls are
///    executed. Where they do not, or a state is compressed or lent, 3 follows.
///  3 What changes is little enough: no call is executed any more, except those
///    that a host function under way needs to end.
///  4 No host function is under way: the devices become idle.
///  5 Something was loaded meanwhile: another dry run.
///  6 The client says that the session goes on.
///  7 The state is written. (After a snapshot the session goes on at once, to
///    running.)
///  8 The session cannot be described, and its process may be checkpointed in
///    place of a state: the driver releases its GPUs' memory. `checkpointed`
///    follows when that is done.
///  9 The client says that the session goes on: the memory is brought back.
/// 10 The memory is back.
/// 11 A helper failed, and another one tries. After three the session ends.
/// 12 The session is to go on before the memory was released: it is recalled,
///    and 9 follows as soon as it is released.
/// 13 The driver cannot release it, and has changed nothing.
///
/// From dry_run, copying, stopping and settling the session returns to running
/// where the client says that it goes on, or where no state can be taken; or it
/// goes to stopping, where its process may be checkpointed instead.
enum class checkpoint_phase : std::uint8_t {
  running,
  dry_run,
  copying,
  stopping,
  settling,
  stopped,
  releasing,
  recalled,
  checkpointed,
  returning
};

/// Whether calls may be executed in this phase without anything being awaited.
constexpr bool runs_calls(checkpoint_phase x) noexcept {
  return x < checkpoint_phase::stopping;
}

/// Whether the driver is being asked to move the process's memory, or has moved
/// it: whoever calls the driver now waits.
constexpr bool blocks_driver(checkpoint_phase x) noexcept {
  return x >= checkpoint_phase::releasing;
}

} // namespace vgpu
