// How far a session is: what is executed, replayed and charged, and what its
// client knows of that.
#pragma once

#include "actors/compute/busy_meter.hpp"
#include "actors/compute/usage_meter.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/client_channel.hpp"

#include <cstdint>

namespace vgpu {

/// Follows a session through its log. A client that attaches says what of the
/// log is a replay, and what of that is in the session's account already: work
/// that is done again is charged apart. The client hears once when a replay is
/// done, once when the first answer after it was given, and how far the session
/// is whenever it asks.
///
/// The server's thread uses it. While that executes a call, its heartbeat
/// thread reads latest().
class replay_progress {
public:
  replay_progress(executor& exec, client_channel& client, usage_meter& account,
                  const busy_meter& busy)
      : exec_(exec), client_(client), account_(account), busy_(busy) {}

  /// The position before which all calls were executed.
  std::uint64_t position() const noexcept { return position_; }
  /// Notes that all calls before this were executed.
  void reached(std::uint64_t position);
  /// Notes that a state has brought the session to this position.
  void restored(std::uint64_t position) {
    position_ = reported_until_ = position;
  }

  // -- a replay ---------------------------------------------------------------

  /// Begins what the client's word makes a replay.
  void begin(const data::attach& by);
  /// Whether a call at hand was executed by an earlier worker.
  bool is_replaying() const noexcept { return position_ < replay_until_; }
  /// Whether a replay is done, and the client has not heard of it.
  bool is_news() const noexcept { return !replay_reported_ && !is_replaying(); }
  /// Tells the client that the replay is done.
  void tell_replayed();
  /// Tells the client of the first answer after a replay, if there is news.
  void tell_first_answer();
  /// Tells the client what a replay brought differently, if it did.
  void tell_differences();

  // -- accounts and reports ---------------------------------------------------

  /// Puts what calls moved into the account, together with the position: if
  /// this worker is killed, another charges what comes after. Returns the
  /// position.
  std::uint64_t charge();
  /// Returns how far the session is.
  data::progress now() const;
  /// Takes down how far the session is, for the heartbeats of what follows.
  void note() { latest_ = now(); }
  /// What was taken down last.
  const data::progress& latest() const noexcept { return latest_; }
  /// Whether so much was executed since the client heard of it that it may make
  /// room in its log.
  bool is_far() const noexcept;
  /// Notes that the client hears how far the session is.
  void note_reported() noexcept { reported_until_ = position_; }

private:
  executor& exec_;
  client_channel& client_;
  usage_meter& account_;
  const busy_meter& busy_;

  std::uint64_t position_ = 0;
  std::uint64_t replay_until_ = 0;
  /// What is done before this position was charged before.
  std::uint64_t charged_until_ = 0;
  std::uint64_t reported_until_ = 0;
  bool replay_reported_ = true;
  bool answer_reported_ = true;
  data::progress latest_;
};

} // namespace vgpu
