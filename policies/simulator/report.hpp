// What simulations came to, for people and for programs.
#pragma once

#include "policies/simulator/simulation.hpp"

#include <span>
#include <string>

namespace vgpu::simulator {

/// The outcome of one placement policy.
struct result_of_policy {
  std::string name;
  outcome what;
  double overcommit = 1; // what of the memory was promised
};

/// As tables and pictures call it.
std::string name_of(const result_of_policy& x);

/// What all of them were given.
struct setting {
  cluster_shape cluster;
  std::size_t vgpus = 0;
};

/// A table with a row for each.
std::string table_of(const setting& all,
                     std::span<const result_of_policy> rows);
/// The same and what happened over time, as one JSON object.
std::string json_of(const setting& all, std::span<const result_of_policy> rows);
/// Utilisation and queue over time, and how long was waited, as a picture (SVG
/// 1.1) that needs nothing else.
std::string svg_of(const setting& all, std::span<const result_of_policy> rows);

/// Decisions a second of this machine's time.
double decision_rate(const outcome& x);

/// The most memory that this process has had, bytes.
std::uint64_t peak_memory();

} // namespace vgpu::simulator
