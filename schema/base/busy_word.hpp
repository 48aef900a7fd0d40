// The utilisation of a device by a session, as one word of shared memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace vgpu {

/// Packs a percentage and the time at which it was written. A word that is not
/// renewed soon counts as 0. Every word is valid.
struct busy_word {
  using clock = std::chrono::steady_clock;
  /// Says how long a word counts.
  static constexpr std::chrono::milliseconds lasts{2'000};

  static std::uint64_t of(unsigned percent, clock::time_point now) noexcept {
    return milliseconds(now) << 8 | std::min(percent, 100u);
  }
  static unsigned percent(std::uint64_t word, clock::time_point now) noexcept {
    auto age = milliseconds(now) - (word >> 8);
    if (age > static_cast<std::uint64_t>(lasts.count()))
      return 0;
    return std::min(static_cast<unsigned>(word & 0xff), 100u);
  }

private:
  static std::uint64_t milliseconds(clock::time_point x) noexcept {
    using unit = std::chrono::milliseconds;
    auto since = std::chrono::duration_cast<unit>(x.time_since_epoch()).count();
    return static_cast<std::uint64_t>(since);
  }
};

} // namespace vgpu
