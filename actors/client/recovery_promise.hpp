// The promise in what time a session recovers: when that demands a snapshot,
// and what the manager hears about it.
#pragma once

#include "actors/client/opened_session.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/link/data_head.hpp"
#include "policies/lifecycle/recovery_time.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace vgpu {

/// Returns a time that a worker told. One that no worker can have is cut off.
std::chrono::nanoseconds told_time(std::uint64_t ns);

/// Feeds policy::recovery_time with what the session's worker tells, by this
/// process's clock, and tells the manager where the promise does not hold.
///
/// It belongs to the session_client's thread.
class recovery_promise {
public:
  using clock = std::chrono::steady_clock;

  /// Both must outlive the object.
  recovery_promise(const opened_session& opened,
                   const session_reports& reports);

  /// Promises what the session's specification says now.
  void promise_anew();
  /// Prepares for another worker. `repeats` says that it executes the calls
  /// since the newest snapshot again.
  void begin_worker(bool repeats) { policy_.begin_worker(repeats); }
  /// Takes the worker's account.
  void note(const data::progress& x);
  /// Takes a whole replay.
  void note_replay(std::chrono::nanoseconds took);
  /// Notes that the snapshot under way covers what the worker has told.
  void note_stopped() { policy_.note_stopped(clock::now()); }
  /// Takes a snapshot, of which some times are the worker's word.
  void note_snapshot(policy::snapshot_effort what);
  /// Takes a snapshot that the program waited for, which is no cost of the
  /// promise.
  void note_cover(std::uint64_t bytes) { policy_.note_cover(bytes); }
  /// Takes a snapshot that failed. `why` is empty where the next one may well
  /// succeed.
  void note_failure(std::string why, std::chrono::nanoseconds stood,
                    std::chrono::nanoseconds took);
  /// Notes why no snapshot can be taken.
  void note_trouble(const std::string& why) { policy_.note_trouble(why); }
  /// Notes that the newest snapshot covers every call.
  void note_covered() { policy_.note_covered(); }

  /// Returns when a snapshot is due, or clock::time_point::max().
  clock::time_point due() const { return policy_.due(clock::now()); }
  /// Tells the manager what holds, if that is news.
  void tell();

private:
  const opened_session& opened_;
  const session_reports& reports_;
  policy::recovery_time policy_;
};

} // namespace vgpu
