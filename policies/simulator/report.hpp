// The results of simulations, for people and for programs.
#pragma once

#include "policies/simulator/simulation.hpp"

#include <span>
#include <string>

namespace vgpu::simulator {

/// Describes the outcome of one placement policy.
struct result_of_policy {
  std::string name;
  outcome what;
  /// Holds the promised memory as a multiple of the existing memory.
  double overcommit = 1;
};

/// Returns the name in tables and pictures.
std::string name_of(const result_of_policy& x);

/// Describes the setting that all policies shared.
struct setting {
  cluster_shape cluster;
  std::size_t vgpus = 0;
};

/// Returns a table with a row for each policy.
std::string table_of(const setting& all,
                     std::span<const result_of_policy> rows);
/// Returns the same numbers, and the course over time, as one JSON object.
std::string json_of(const setting& all, std::span<const result_of_policy> rows);
/// Returns utilisation and queue over time, and waiting times, as a
/// self-contained picture (SVG 1.1).
std::string svg_of(const setting& all, std::span<const result_of_policy> rows);

/// Returns the decisions per second of this machine's time.
double decision_rate(const outcome& x);

/// Returns this process's peak memory, in bytes.
std::uint64_t peak_memory();

} // namespace vgpu::simulator
