// How many events of each kind there were, and how long what they tell of took.
#pragma once

#include "actors/link/protocol.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace vgpu {

/// The durations of one kind of event, as a histogram.
struct tally {
  /// Milliseconds up to which a bucket counts; what takes longer is in `count`
  /// alone.
  static constexpr std::array<double, 12> bounds{
      1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30'000};

  std::uint64_t count = 0;
  std::uint64_t timed = 0;                           // of which have a duration
  double milliseconds = 0;                           // the sum of these
  std::array<std::uint64_t, bounds.size()> within{}; // cumulative
};

/// One tally a kind. Kinds that nobody of ours gives are counted as one, so
/// that what a peer sends cannot grow it.
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
