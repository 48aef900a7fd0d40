// Reports a worker's replay of the calls of a former worker.
#pragma once

#include "actors/client/session_lease.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/link/data_head.hpp"

#include <chrono>
#include <cstdint>

namespace vgpu {

/// Follows the replay of each epoch, and reports to the manager when it is done
/// and when the program got its first result after it.
///
///   first ──begin──► replaying ──────► replayed ──────► answered
///                                progress        answer
///
/// It belongs to the session_client's thread.
class replay_report {
public:
  enum class phase {
    first,     // no earlier worker has executed calls
    replaying, // the worker executes calls that the program made before
    replayed,  // the replay is done, and the program has no new result yet
    answered,  // nothing is left to report
  };
  /// Describes the part of the call log that is replayed.
  struct range {
    std::uint64_t from = 0;
    std::uint64_t until = 0;
    /// Counts the session's calls before `from`.
    std::uint64_t calls_before = 0;
  };

  /// Both must outlive the object.
  replay_report(const session_lease& lease, const session_reports& reports)
      : lease_(lease), reports_(reports) {}

  /// Begins an epoch whose worker is the session's first.
  void begin_first() noexcept;
  /// Begins an epoch whose worker follows another. `replays` is false where the
  /// worker restores a state after which no calls were made.
  void begin(const range& what, bool replays) noexcept;

  /// Takes the worker's report.
  void note(const data::progress& x);
  /// Records that the program got an answer that it waited for.
  void note_answer();

  /// Returns whether the worker of this epoch follows another.
  bool follows() const noexcept { return phase_ != phase::first; }
  /// Returns whether the replay is done.
  bool done() const noexcept { return phase_ != phase::replaying; }
  /// Returns for how long the worker of this epoch has been at work.
  std::chrono::nanoseconds lasted() const { return clock::now() - began_; }
  /// Returns where the replay ends, in bytes from the log's beginning.
  std::uint64_t until() const noexcept { return range_.until; }

private:
  using clock = std::chrono::steady_clock;

  double milliseconds_since_begin() const;
  void tell_replayed(std::uint64_t calls);
  void tell_first_result();

  const session_lease& lease_;
  const session_reports& reports_;
  phase phase_ = phase::first;
  range range_;
  clock::time_point began_{};
};

} // namespace vgpu
