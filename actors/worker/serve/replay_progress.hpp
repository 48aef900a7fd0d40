// The progress of a session: what is executed, replayed and charged, and what
// was reported to its client.
#pragma once

#include "actors/compute/busy_meter.hpp"
#include "actors/compute/usage_meter.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/client_channel.hpp"

#include <chrono>
#include <cstdint>

namespace vgpu {

/// Follows a session through its log. An attaching client says which part of
/// the log is a replay, and which part of that was charged before. Repeated
/// work is charged apart. The client gets a report when a replay is done, when
/// the first answer after it was given, and on each request.
///
/// The server's thread uses it. While that thread executes a call, its
/// heartbeat thread reads latest().
class replay_progress {
public:
  replay_progress(executor& exec, client_channel& client, usage_meter& account,
                  const busy_meter& busy)
      : exec_(exec), client_(client), account_(account), busy_(busy) {}

  /// Returns the position before which all calls were executed.
  std::uint64_t position() const noexcept { return position_; }
  /// Records that all calls before this position were executed.
  void reached(std::uint64_t position);
  /// Records that the worker executed so many calls, with which it was busy for
  /// so long.
  void served(std::uint64_t calls, std::chrono::nanoseconds time) noexcept {
    served_calls_ += calls;
    served_ += time;
  }
  /// Records that a state has brought the session to this position.
  void restored(std::uint64_t position) {
    position_ = reported_until_ = position;
  }

  // -- a replay ---------------------------------------------------------------

  /// Begins the replay that the client's message describes.
  void begin(const data::attach& by);
  /// Returns whether the next call was executed by an earlier worker.
  bool is_replaying() const noexcept { return position_ < replay_until_; }
  /// Returns whether a replay is done that was not reported yet.
  bool is_news() const noexcept { return !replay_reported_ && !is_replaying(); }
  /// Sets whether the replay's results are still being compared, and nothing is
  /// answered (divergence_guard.hpp).
  void compares(bool is) noexcept { compares_ = is; }
  /// Reports to the client that the replay is done.
  void tell_replayed();
  /// Reports the first answer after a replay, if that is new.
  void tell_first_answer();
  /// Reports calls whose results differ in a replay, if there are any.
  void tell_differences();

  // -- accounts and reports ---------------------------------------------------

  /// Charges the bytes that calls moved, together with the position. If this
  /// worker is killed, the next one charges what follows. Returns the position.
  std::uint64_t charge();
  /// Returns the session's progress.
  data::progress now() const;
  /// Tells a client of this host what was executed, if it has not heard that
  /// for a while. It has read the former message, so that other messages find
  /// room.
  void tell_account();
  /// Saves the progress, for the heartbeats during the next call.
  void note() { latest_ = now(); }
  /// Returns the progress that note() saved.
  const data::progress& latest() const noexcept { return latest_; }
  /// Returns whether so much was executed since the last report that the client
  /// should get one, so that it can free room in its log.
  bool is_far() const noexcept;
  /// Records that the client gets a progress report.
  void note_reported() noexcept { reported_until_ = position_; }

private:
  executor& exec_;
  client_channel& client_;
  usage_meter& account_;
  const busy_meter& busy_;

  std::uint64_t position_ = 0;
  std::uint64_t replay_until_ = 0;
  /// Work before this position was charged earlier.
  std::uint64_t charged_until_ = 0;
  std::uint64_t reported_until_ = 0;
  std::uint64_t served_calls_ = 0;
  std::chrono::nanoseconds served_{0};
  std::uint64_t told_calls_ = 0; // of served_calls_
  std::chrono::steady_clock::time_point told_at_{};
  bool compares_ = false;
  bool replay_reported_ = true;
  bool answer_reported_ = true;
  data::progress latest_;
};

/// Measures a batch of calls, from its construction on. It reads the clock now
/// and then, and at the end.
class served_calls {
public:
  explicit served_calls(replay_progress& to) noexcept : to_(to) {}
  served_calls(const served_calls&) = delete;
  served_calls& operator=(const served_calls&) = delete;
  ~served_calls() {
    if (calls_ != 0)
      look();
  }

  /// Counts one call.
  void add() noexcept {
    constexpr unsigned looks_every = 64;
    to_.served(1, {});
    if (++calls_ % looks_every == 0)
      look();
  }

private:
  using clock = std::chrono::steady_clock;

  void look() noexcept {
    auto now = clock::now();
    to_.served(0, now - since_);
    since_ = now;
  }

  replay_progress& to_;
  unsigned calls_ = 0;
  clock::time_point since_ = clock::now();
};

} // namespace vgpu
