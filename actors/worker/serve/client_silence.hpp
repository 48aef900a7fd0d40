// How long a session's client has been silent.
#pragma once

#include <algorithm>
#include <chrono>

namespace vgpu {

/// Records when a client was last heard. A client that forwards calls holds a
/// lease, which lapses when the client is silent for the lease's term. Then no
/// call is executed until the client attaches again. A session without any
/// client is given up after a while. Not thread-safe; the caller gives the
/// time.
///
/// The lease is judged in real time. The client hands the session's calls to
/// another worker when term + margin have passed since it last sent a message
/// (fence.hpp). This worker begins no call after heard + term. So there is at
/// most one at a time as long as
///
///   heard + term < sent + term + margin,  that is  heard - sent < margin
///
/// A message may be read long after it came, where this process stood still.
/// Therefore the caller reports each turn. After a time of more than
/// `most_between_turns` without one, messages count as heard before that time,
/// until the caller has found that no more of them wait. So heard - sent is at
/// most `most_between_turns` and the time that the network takes, and
/// worker_fence::margin exceeds their sum.
class client_silence {
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds most_between_turns{150};

  client_silence(std::chrono::milliseconds lease_term,
                 std::chrono::milliseconds abandoned_after,
                 clock::time_point now)
      : lease_term_(lease_term), abandoned_after_(abandoned_after), heard_(now),
        turned_(now), credible_(now) {}

  /// Records that the caller runs.
  void turn(clock::time_point now) noexcept {
    // After the first of several gaps nothing newer was credible.
    stale_ = stale_ || now - turned_ > most_between_turns;
    turned_ = now;
    if (!stale_)
      credible_ = now;
  }
  /// Records that no message waits, since the last turn.
  void drained() noexcept {
    stale_ = false;
    credible_ = turned_;
  }

  void heard(clock::time_point now) noexcept {
    (void)lapses(now);
    turn(now);
    heard_ = std::max(heard_, credible_);
  }
  /// Renews the lease, because the client attached. No call came before the
  /// first client, so it may have waited for any time.
  void renew(clock::time_point now) noexcept {
    turn(now);
    heard_ = attached_ ? std::max(heard_, credible_) : now;
    attached_ = true;
    lapsed_ = refused_ = false;
    (void)lapses(now);
  }
  /// Returns whether a client that forwards calls has attached.
  bool attached() const noexcept { return attached_; }
  /// Returns true when the lease lapses now.
  bool lapses(clock::time_point now) noexcept {
    if (lapsed_ || now - heard_ <= lease_term_)
      return false;
    return lapsed_ = true;
  }
  bool lapsed() const noexcept { return lapsed_; }
  /// Returns true once after the lease lapsed, so that the client gets one
  /// refusal. It sends again afterwards what was under way.
  bool refuses() noexcept {
    auto first = !refused_;
    refused_ = true;
    return first;
  }

  /// Returns whether there was no client for so long that the session is given
  /// up.
  bool abandoned(clock::time_point now) const noexcept {
    return now - heard_ > abandoned_after_;
  }

  std::chrono::milliseconds lease_term() const noexcept { return lease_term_; }
  std::chrono::milliseconds abandoned_after() const noexcept {
    return abandoned_after_;
  }

private:
  std::chrono::milliseconds lease_term_;
  std::chrono::milliseconds abandoned_after_;
  clock::time_point heard_;
  clock::time_point turned_;
  /// Holds the earliest time at which a message that is read now may have come.
  clock::time_point credible_;
  bool stale_ = false;
  bool attached_ = false;
  bool lapsed_ = false;
  bool refused_ = false;
};

} // namespace vgpu
