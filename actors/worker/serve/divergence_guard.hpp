// Keeps a program from going on with a state that it has never seen: answers
// nothing before a replay was compared with what the program has read.
#pragma once

#include "actors/worker/serve/client_channel.hpp"
#include "actors/worker/serve/replay_progress.hpp"
#include "actors/worker/session/held_answers.hpp"
#include "schema/wire/specification.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace vgpu {

/// Serves divergence::error; under the other settings it does nothing. During a
/// replay it holds the answers, and after it the calls, until all results that
/// the program has read were compared. Where one differs, nothing is answered
/// any more, and the client gives the program an error. The server's thread
/// uses it.
class divergence_guard {
public:
  /// Calls `ring`, on any thread, to wake the thread when look() has work.
  divergence_guard(executor& exec, client_channel& client,
                   replay_progress& progress, std::function<void()> ring)
      : exec_(exec), client_(client), progress_(progress),
        ring_(std::move(ring)) {}

  /// Returns the sink through which to answer this one for a client that has
  /// such a wish.
  std::shared_ptr<answer_sink> in_front_of(std::shared_ptr<answer_sink> sink,
                                           control::divergence wish);
  /// Begins to hold where a client has begun a replay. Call it after
  /// replay_progress::begin().
  void begin();
  /// Releases what is held once the replay is done and was compared, or tells
  /// the client that it differs.
  void look();
  /// Returns whether answers are held.
  bool holds() const noexcept { return holds_; }
  /// Returns whether the next call may be executed: it is one of the replay, or
  /// nothing is held.
  bool takes_calls() const noexcept {
    return !differs_ && (!holds_ || progress_.is_replaying());
  }

  /// Releases the sinks, which hold the program's memory. Call it last.
  void forget() noexcept { sinks_.clear(); }

private:
  void release();
  void fail();

  executor& exec_;
  client_channel& client_;
  replay_progress& progress_;
  std::function<void()> ring_;
  /// Holds each sink that answers have gone to, with the one in front of it.
  std::vector<
      std::pair<std::shared_ptr<answer_sink>, std::shared_ptr<held_answers>>>
      sinks_;
  bool holds_ = false;
  bool differs_ = false;
};

} // namespace vgpu
