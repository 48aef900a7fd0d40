// How long a session's client has been silent.
#pragma once

#include <chrono>

namespace vgpu {

/// Records when a client was last heard. A client that forwards calls holds a
/// lease, which lapses when the client is silent for the lease's term. Then no
/// call is executed until the client attaches again. A session without any
/// client is given up after a while. Not thread-safe; the caller gives the
/// time.
class client_silence {
public:
  using clock = std::chrono::steady_clock;

  client_silence(std::chrono::milliseconds lease_term,
                 std::chrono::milliseconds abandoned_after,
                 clock::time_point now)
      : lease_term_(lease_term), abandoned_after_(abandoned_after),
        heard_(now) {}

  void heard(clock::time_point now) noexcept { heard_ = now; }
  /// Renews the lease, because the client attached.
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
  bool lapsed_ = false;
  bool refused_ = false;
};

} // namespace vgpu
