#pragma once

#include <cstddef>
#include <vector>

namespace vgpu::simulator {

/// Describes the values that are recorded over time.
struct levels {
  /// Is the compute in use, in pGPUs.
  double busy = 0;
  /// Is the promised part of the cluster's memory, in [0, 1].
  double promised = 0;
  /// Is the number of waiting vGPUs.
  double queue = 0;
};

/// Levels over a time of unknown length, as means over equal spans. There are
/// never more than `most_spans`: each becomes twice as long when there would be
/// more.
class timeline {
public:
  static constexpr std::size_t most_spans = 512;

  /// Adds the levels between `from` and `to`, in seconds. `from` must not be
  /// less than the last `to`.
  void add(double from, double to, const levels& what);

  /// Returns the length of a span, in seconds.
  double span() const noexcept { return span_; }
  /// Returns the mean of each span. The last span may be shorter.
  std::vector<levels> means() const;
  /// Returns the mean over the whole time.
  levels mean() const;

private:
  /// Holds the levels times the seconds for which they lasted.
  std::vector<levels> sums_;
  double span_ = 1;
  double end_ = 0;
};

} // namespace vgpu::simulator
