// The phase of a session, as its client sees it.
#pragma once

namespace vgpu {

/// Names the phase of a session_client.
///
/// The program opens its session, and a worker serves it:
///
///   opening ──program──► asking ──lease──► serving
///
/// The worker takes a snapshot and continues:
///
///   serving ──due──► snapshotting ──taken or given up──► serving
///
/// The session leaves its worker, and its state goes to another one:
///
///               order                  state is here
///   serving ───────────► checkpointing ─────────────► checkpointed
///     ▲  ▲                    │                        │  │ program calls
///     │  └───── given up ─────┘                  lease │  ▼
///     │                                                │ called
///     │          attached                              ▼  │ lease
///     └──────────────────────────────────────── restoring ◄
///
/// The session's state cannot be described, so the driver checkpoints the
/// worker's process:
///
///                                         program calls
///   checkpointing ──► process_checkpointed ──────────► process_called
///                              │ order to resume             │
///                              └────────► resuming ◄─────────┘
///                                             └──resumed──► serving
///
/// From any phase that follows asking, with a lease of a later epoch:
///
///   ──fence does not pass──► fencing
///   ──a state or a snapshot is held──► restoring
///   ──the whole journal is replayed──► serving
///   ──nothing is left to serve from──► lost
///
/// A refusal by the manager leads from each of them to `lost`, too. From any
/// phase the session is `ended` when its program is gone.
///
/// Whether the worker is suspected is no phase, but belongs to its lease
/// (session_lease). How far it has replayed is replay_report's.
enum class session_phase {
  /// The program has not sent its request.
  opening,
  /// No worker has the session yet.
  asking,
  /// There is a lease of a later epoch, and a former worker may still run. Only
  /// another lease ends this phase.
  fencing,
  /// The lease's worker has received a state, and has not reported that it
  /// restored it.
  restoring,
  /// The lease's worker executes the program's calls.
  serving,
  /// The lease's worker executes the program's calls, and takes a snapshot.
  snapshotting,
  /// The lease's worker was ordered to checkpoint the session and to hand over
  /// the state.
  checkpointing,
  /// The state is here, its worker was released, and the program made no call
  /// since.
  checkpointed,
  /// The state is here, and the manager knows that the program has called.
  called,
  /// The driver checkpointed the worker's process in place of a state. The
  /// worker still belongs to the session, and the program made no call since.
  process_checkpointed,
  /// The worker's process is checkpointed, and the manager knows that the
  /// program has called.
  process_called,
  /// The worker's process was ordered to resume.
  resuming,
  /// No worker can serve the session any more. The program gets an error for
  /// each call.
  lost,
  /// The program is gone, and the session_client ends.
  ended,
};

/// Returns whether the session sleeps until its program calls. No worker reads
/// the log then, so the client watches for calls.
constexpr bool sleeps(session_phase x) noexcept {
  return x == session_phase::checkpointed ||
         x == session_phase::process_checkpointed;
}

/// Returns whether the session's worker is a checkpointed process that was not
/// ordered to resume.
constexpr bool is_process_away(session_phase x) noexcept {
  return x == session_phase::process_checkpointed ||
         x == session_phase::process_called;
}

/// Returns whether the session has a checkpointed process that has not resumed.
constexpr bool has_process_checkpoint(session_phase x) noexcept {
  return is_process_away(x) || x == session_phase::resuming;
}

} // namespace vgpu
