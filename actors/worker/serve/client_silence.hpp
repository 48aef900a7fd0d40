// How long a session's client was not heard.
#pragma once

#include <chrono>

namespace vgpu {

/// Follows when a client was heard last. A client that forwards calls holds a
/// lease, which lapses when it is silent for the lease's term: no call is
/// executed until it shows the lease again. A session without any client is
/// given up after a while. One thread; the caller's clock.
class client_silence {
public:
  using clock = std::chrono::steady_clock;

  client_silence(std::chrono::milliseconds lease_term,
                 std::chrono::milliseconds abandoned_after,
                 clock::time_point now)
      : lease_term_(lease_term), abandoned_after_(abandoned_after),
        heard_(now) {}

  void heard(clock::time_point now) noexcept { heard_ = now; }
  /// The client showed its lease.
  void renew(clock::time_point now) noexcept {
    heard_ = now;
    lapsed_ = refused_ = false;
  }
  /// Returns true when the lease lapses now.
  bool lapses(clock::time_point now) noexcept {
    if (lapsed_ || now - heard_ <= lease_term_)
      return false;
    return lapsed_ = true;
  }
  bool lapsed() const noexcept { return lapsed_; }
  /// Returns true the first time after the lease lapsed: the client hears of it
  /// once, and sends again afterwards what else was under way.
  bool refuses() noexcept {
    auto first = !refused_;
    refused_ = true;
    return first;
  }

  /// Whether there was no client for so long that the session is given up.
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
  bool lapsed_ = false;
  bool refused_ = false;
};

} // namespace vgpu
