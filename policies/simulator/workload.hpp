// Generated traces.
#pragma once

#include "policies/simulator/trace.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::simulator {

/// Describes a cluster of equal nodes.
struct cluster_shape {
  std::size_t nodes = 4;
  std::uint32_t gpus_per_node = 8;
  /// Is the memory of a pGPU, in bytes.
  std::uint64_t memory = std::uint64_t{80} << 30;
};

/// Describes a share of a pGPU, and its relative frequency.
struct size_weight {
  double share = 1;
  double weight = 1;
};

/// Parses `0.125:3,0.5,1`: shares in (0, 1], each with its weight (default 1).
result<std::vector<size_weight>> read_sizes(const std::string& text);

/// Holds the options of a generated trace.
struct workload_options {
  std::uint64_t seed = 1;
  std::size_t vgpus = 10'000;
  /// Holds the arrivals per second. 0: as many as keep the part `aim` of the
  /// cluster busy.
  double rate = 0;
  double aim = 0.85;
  /// Is the mean run time, in seconds.
  double run_time = 600;
  std::vector<size_weight> sizes{{0.125, 3}, {0.25, 2}, {0.5, 1}, {1, 1}};
  /// Holds the part of the programs that are idle half way, for as long as they
  /// run. Such a program may be suspended after 30 s of that.
  double idle = 0.1;
};

/// Generates vGPUs that arrive at random (a Poisson process), run for
/// exponentially distributed times, and reserve memory and load a pGPU in
/// proportion to their share. A third of the programs run on nodes' hosts. The
/// same options give the same trace everywhere.
std::vector<arrival> generate(const workload_options& options,
                              const cluster_shape& cluster);

/// Returns the name of a node, which is also its host's, by its number.
std::string node_name(std::size_t number);

} // namespace vgpu::simulator
