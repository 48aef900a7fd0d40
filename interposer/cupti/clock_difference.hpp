// The difference between the clocks of a program's host and of its worker's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace vgpu::interposer {

/// Estimates how far this host's clock is ahead of the worker's, from pieces of
/// work: none was received before the program called, or ended after its times
/// came. Within these bounds the clocks count as equal, as they are on one
/// host. Times are nanoseconds. Not thread-safe.
class clock_difference {
public:
  /// Learns from one piece of work. The first two times are of this host.
  void learn(std::uint64_t called, std::uint64_t now, std::uint64_t received,
             std::uint64_t ended) noexcept {
    least_ = std::max(least_, static_cast<std::int64_t>(called - received));
    most_ = std::min(most_, static_cast<std::int64_t>(now - ended));
  }

  /// Returns the time of this host for one of the worker's host.
  std::uint64_t here(std::uint64_t there) const noexcept {
    auto ahead =
        least_ > most_ ? least_ : std::clamp<std::int64_t>(0, least_, most_);
    return there + static_cast<std::uint64_t>(ahead);
  }

private:
  std::int64_t least_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t most_ = std::numeric_limits<std::int64_t>::max();
};

} // namespace vgpu::interposer
