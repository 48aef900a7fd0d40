// Keeps a program from reading results that another execution might change:
// holds a read back until a snapshot covers what it reads.
#pragma once

#include "actors/worker/serve/client_channel.hpp"
#include "actors/worker/serve/replay_progress.hpp"

#include <chrono>

namespace vgpu {

/// Serves divergence::snapshot; under the other settings it does nothing. The
/// executor holds back a read whose results are not covered (result_cover.hpp).
/// Then this object asks the client for a snapshot, and lets no call begin
/// before the client says that there is one. So the snapshot is of the read's
/// own position, and the next worker would read the same bytes.
///
///   worker                              client
///     │ a read is held back                │
///     ├── cover_wanted ───────────────────►│
///     │◄── checkpoint, go on ──────────────┤
///     ├── checkpointed ───────────────────►│ the newest snapshot
///     │◄── covered ────────────────────────┤
///     │ executes the read
///
/// The server's thread uses it.
class cover_guard {
public:
  cover_guard(executor& exec, client_channel& client,
              const replay_progress& progress)
      : exec_(exec), client_(client), progress_(progress) {}

  /// Takes the wish of a client that has attached, and what is covered. A new
  /// client does not know of a read that is held back, so it is asked too.
  void begin(const data::attach& by);
  /// Asks the client, because the executor holds back the next call.
  void hold();
  /// Takes the client's word that there is a snapshot.
  void take(const data::covered& x);
  /// Takes the client's wish from now on. What the program has read so far is
  /// not covered by it.
  void take(const data::wish& x);
  /// Lets the read begin where the session's work has failed: then the program
  /// gets that error, and there is no state to take.
  void look();
  /// Returns whether a read is held back.
  bool holds() const noexcept { return holds_; }
  /// Returns for how long the read has been held back.
  std::chrono::nanoseconds held_for() const { return clock::now() - since_; }

private:
  using clock = std::chrono::steady_clock;

  void ask();
  void let_go();

  executor& exec_;
  client_channel& client_;
  const replay_progress& progress_;
  bool holds_ = false;
  clock::time_point since_{};
};

} // namespace vgpu
