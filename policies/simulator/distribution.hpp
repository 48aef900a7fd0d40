// Many numbers in a few.
#pragma once

#include <vector>

namespace vgpu::simulator {

/// Of a number for each vGPU.
struct distribution {
  double mean = 0;
  double p95 = 0;
  double p99 = 0;
  double most = 0;
};
distribution distribution_of(std::vector<double> all);

/// Jain's index: 1 where all have the same, 1/n where one has everything. 1 of
/// nothing.
double jain_index(const std::vector<double>& all);

} // namespace vgpu::simulator
