// A limit for silence that grows where it proves too short.
#pragma once

#include "policies/placement/views.hpp"

#include <algorithm>
#include <chrono>

namespace vgpu::policy {

/// Says how long to wait for a sign of life of somebody who may be slow: a
/// worker on a busy host, or behind a slow link, is silent for as long as a
/// dead one would be. Each time that the patience ends, it is twice as long
/// from then on, for whoever comes next, too. Each calm time halves it again.
/// Not thread-safe.
class growing_patience {
public:
  /// Says after which time without an end the patience is halved.
  static constexpr std::chrono::seconds calm{30};
  /// The patience grows no further.
  static constexpr std::chrono::seconds longest{10};

  /// Returns the present patience where nothing was too slow for `usual`.
  std::chrono::milliseconds of(std::chrono::milliseconds usual,
                               time_point now) const noexcept {
    auto grown = usual * (1 << doublings(now));
    return std::max(usual, std::min<std::chrono::milliseconds>(grown, longest));
  }
  /// Notes that the patience has ended.
  void ended(time_point now) noexcept {
    doublings_ = std::min(doublings(now) + 1, most_doublings);
    since_ = now;
  }

private:
  static constexpr int most_doublings = 6;

  int doublings(time_point now) const noexcept {
    auto halvings = (now - since_) / calm;
    return halvings >= doublings_ ? 0 : doublings_ - static_cast<int>(halvings);
  }

  int doublings_ = 0;
  time_point since_{};
};

} // namespace vgpu::policy
