// Traces that nobody recorded.
#pragma once

#include "policies/simulator/trace.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::simulator {

/// So many nodes, all alike.
struct cluster_shape {
  std::size_t nodes = 4;
  std::uint32_t gpus_per_node = 8;
  std::uint64_t memory = std::uint64_t{80} << 30; // bytes of a pGPU
};

/// A share of a pGPU, and how often it is asked for.
struct size_weight {
  double share = 1;
  double weight = 1;
};

/// `0.125:3,0.5,1`: shares in (0, 1], each with its weight (else 1).
result<std::vector<size_weight>> read_sizes(const std::string& text);

struct workload_options {
  std::uint64_t seed = 1;
  std::size_t vgpus = 10'000;
  /// Arrivals a second; 0: as many as keep `aim` of the cluster busy.
  double rate = 0;
  double aim = 0.85;
  double run_time = 600; // seconds, on average
  std::vector<size_weight> sizes{{0.125, 3}, {0.25, 2}, {0.5, 1}, {1, 1}};
  /// The part of them that is idle half way, for as long as it runs, and gives
  /// its place up after 30 s of that.
  double idle = 0.1;
};

/// vGPUs that come at random (a Poisson process), run for exponentially
/// distributed times, reserve memory and load a pGPU in proportion to their
/// share, and of whose programs a third run on nodes' hosts. The same options
/// give the same trace everywhere.
std::vector<arrival> generate(const workload_options& options,
                              const cluster_shape& cluster);

/// Of the number of a node its name, which is its host's as well.
std::string node_name(std::size_t number);

} // namespace vgpu::simulator
