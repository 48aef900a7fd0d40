// Counts the events of each kind, and their durations.
#pragma once

#include "actors/link/protocol.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace vgpu {

/// Holds the durations of one kind of event, as a histogram.
struct tally {
  /// Holds the upper bounds of the buckets, in milliseconds. A longer duration
  /// is in `count` alone.
  static constexpr std::array<double, 12> bounds{
      1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30'000};

  std::uint64_t count = 0;
  std::uint64_t timed = 0; // events that have a duration
  double milliseconds = 0; // sum of the durations
  std::array<std::uint64_t, bounds.size()> within{}; // cumulative
};

/// Keeps one tally for each kind. Beyond most_kinds, all further kinds are
/// counted as "other", so that a peer cannot make it grow.
class event_tally {
public:
  static constexpr std::size_t most_kinds = 128;

  void add(const control::event& x) {
    auto known = kinds_.size() < most_kinds || kinds_.contains(x.kind);
    auto& to = kinds_[known ? x.kind : "other"];
    ++to.count;
    if (!(x.milliseconds > 0))
      return;
    ++to.timed;
    to.milliseconds += x.milliseconds;
    for (std::size_t i = 0; i < tally::bounds.size(); ++i)
      if (x.milliseconds <= tally::bounds[i])
        ++to.within[i];
  }

  const std::map<std::string, tally>& kinds() const noexcept { return kinds_; }

private:
  std::map<std::string, tally> kinds_;
};

} // namespace vgpu
