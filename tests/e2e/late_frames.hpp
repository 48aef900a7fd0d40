// A model of a slow link: frames arrive in order, each after a delay, and the
// number of frames in flight is bounded.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace vgpu::test {

/// Describes the delay of a frame: a mean, and the largest deviation from it.
struct delay {
  std::chrono::microseconds usual{0};
  std::chrono::microseconds jitter{0};
};

/// Models one direction of a link. Callers pass the present time.
class late_frames {
public:
  using clock = std::chrono::steady_clock;
  using frame = std::vector<std::byte>;

  explicit late_frames(std::size_t most, unsigned seed = 1)
      : most_(most), dice_(seed) {}

  /// Sends a frame, or drops it if too many are in flight.
  void push(frame x, const delay& takes, clock::time_point now) {
    if (frames_.size() == most_) {
      ++dropped_;
      return;
    }
    last_ = std::max(last_, now + draw(takes));
    frames_.emplace_back(last_, std::move(x));
  }

  /// Returns the next frame, if it has arrived.
  std::optional<frame> pop(clock::time_point now) {
    if (frames_.empty() || frames_.front().first > now)
      return std::nullopt;
    auto out = std::move(frames_.front().second);
    frames_.pop_front();
    return out;
  }

  /// Returns when the next frame arrives.
  std::optional<clock::time_point> next() const {
    if (frames_.empty())
      return std::nullopt;
    return frames_.front().first;
  }

  std::uint64_t dropped() const noexcept { return dropped_; }

private:
  std::chrono::microseconds draw(const delay& takes) {
    auto most = takes.jitter.count();
    std::uniform_int_distribution<std::int64_t> off{-most, most};
    return takes.usual + std::chrono::microseconds{off(dice_)};
  }

  std::size_t most_;
  std::mt19937 dice_;
  std::deque<std::pair<clock::time_point, frame>> frames_;
  clock::time_point last_; // No later frame arrives before this.
  std::uint64_t dropped_ = 0;
};

} // namespace vgpu::test
