// Statistics over many numbers.
#pragma once

#include <vector>

namespace vgpu::simulator {

/// Describes the distribution of a value over vGPUs.
struct distribution {
  double mean = 0;
  double p95 = 0;
  double p99 = 0;
  double most = 0;
};
distribution distribution_of(std::vector<double> all);

/// Returns Jain's index: 1 where all values are equal, and 1/n where one has
/// everything. Returns 1 for no values.
double jain_index(const std::vector<double>& all);

} // namespace vgpu::simulator
