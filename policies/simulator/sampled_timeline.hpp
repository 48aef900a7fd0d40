#pragma once

#include <cstddef>
#include <vector>

namespace vgpu::simulator {

/// What is followed over time.
struct levels {
  double busy = 0;     // pGPUs' worth of compute
  double promised = 0; // of the cluster's memory, in [0, 1]
  double queue = 0;    // vGPUs that wait
};

/// Levels over a time that is not known beforehand, as means over equal spans:
/// never more than `most_spans`, each twice as long when there would be more.
class timeline {
public:
  static constexpr std::size_t most_spans = 512;

  /// From `from` to `to`, seconds, it was so. `from` is never less than the
  /// last `to`.
  void add(double from, double to, const levels& what);

  double span() const noexcept { return span_; } // seconds of each
  /// The mean of each span; the last one may be shorter.
  std::vector<levels> means() const;
  /// Over all of the time.
  levels mean() const;

private:
  std::vector<levels> sums_; // times seconds
  double span_ = 1;
  double end_ = 0;
};

} // namespace vgpu::simulator
