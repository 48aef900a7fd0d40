// The phases of a checkpoint, in the session's worker.
#pragma once

#include <cstdint>

namespace vgpu {

/// Says whether a worker executes calls, and if not, why.
///
///        14 ┌─► preparing ─┐
///           │       ▲ 17   ▼
///        16 ├─► asking ────┤ 18
///           │              ▼
///           │      ┌────── 5 ──────┐
///           │ 1    ▼       2       │       3              4
///  running ─┼──► dry_run ───┬───► copying ───┬───► stopping ───► settling
///           └───────────────┴────────────────┘                     │   │
///                                                                7 │   │ 8
///      6                                                           │   │
///  ◄──────── stopped ◄─────────────────────────────────────────────┤   │
///      15                                                          │   │
///  ◄──────── completing ◄──────────────────────────────────────────┘   │
///                                                                      │
///      10              9                       8                       │
///  ◄──────── returning ◄──── checkpointed ◄──────── releasing ◄────────┘
///               │  11          ▲  ▲                   │   │
///               └──────────────┘  └─── recalled ◄─────┘   │ 13
///                                             12          ▼
///                                                      running
///
///  1 A checkpoint is ordered, and a driver placed variables of the session: a
///    dry run tests whether another worker would get the same addresses.
///  2 The devices track changes: memory is copied while calls are executed.
///    Where they do not, or a state is compressed or lent, 3 follows.
///  3 Little enough changes: no call is executed any more, except those that a
///    host function under way needs to end.
///  4 No host function is under way: the devices become idle.
///  5 A module was loaded meanwhile: another dry run.
///  6 The client lets the session continue.
///  7 The state is written, or a snapshot's devices keep what its file lacks.
///    (After a snapshot that is written the session returns to running at
///    once.)
///  8 The session cannot be described, and its process may be checkpointed
///    instead: the driver releases its GPUs' memory. `checkpointed` follows
///    when that is done.
///  9 The client lets the session continue: the memory is brought back.
/// 10 The memory is back.
/// 11 A helper failed, and another one tries. After three the session ends.
/// 12 The session must continue before the memory was released: it is recalled,
///    and 9 follows as soon as it is released.
/// 13 The driver cannot release the memory, and has changed nothing.
/// 14 The next worker is prepared on this host, and makes objects. 1, 2 or 3
///    follows, unless variables lie elsewhere there.
/// 15 The file has everything.
/// 16 As in 1, for a snapshot: the node is asked for a standby.
/// 17 There is one, which makes objects as in 14.
/// 18 There is none: as after preparing.
///
/// From asking, preparing, dry_run, copying, stopping, settling and completing
/// the session returns to running where the client lets it continue, or where
/// no state can be taken. Where its process may be checkpointed instead, it
/// goes to stopping.
enum class checkpoint_phase : std::uint8_t {
  running,
  asking,
  preparing,
  dry_run,
  copying,
  completing,
  stopping,
  settling,
  stopped,
  releasing,
  recalled,
  checkpointed,
  returning
};

/// Returns whether calls may be executed in this phase without any condition.
constexpr bool runs_calls(checkpoint_phase x) noexcept {
  return x < checkpoint_phase::stopping;
}

/// Returns whether objects are being made ahead, or will be.
constexpr bool makes_ahead(checkpoint_phase x) noexcept {
  return x == checkpoint_phase::asking || x == checkpoint_phase::preparing;
}

/// Returns whether the driver is moving the process's memory, or has moved it.
/// Calls of the driver block meanwhile.
constexpr bool blocks_driver(checkpoint_phase x) noexcept {
  return x >= checkpoint_phase::releasing;
}

} // namespace vgpu
