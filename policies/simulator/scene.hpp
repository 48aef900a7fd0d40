// What all parts of a simulation know.
#pragma once

#include "policies/placement/constraints.hpp"
#include "policies/simulator/calendar.hpp"
#include "policies/simulator/simulated_sessions.hpp"
#include "policies/simulator/simulation.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vgpu::simulator {

/// Who there is, what time it is, and what will happen. vGPUs are numbers, in
/// the order of the trace. The parts of a simulation share it, each writes what
/// is its own of a guest and of the outcome, and none of them keeps a copy.
struct scene {
  scene(const std::vector<arrival>& all, const simulation_options& how)
      : trace(all), options(how), sessions(all.size()) {}
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  const control::specification& asked_by(std::uint32_t i) const {
    return trace[i].constraints;
  }
  policy::demand constraints_of(std::uint32_t i) const {
    return policy::demand_of(trace[i].constraints, trace[i].host);
  }
  double bytes_of(std::uint32_t i) const {
    return static_cast<double>(trace[i].constraints.memory) *
           trace[i].constraints.gpus;
  }
  /// Seconds that it stands still while its memory is copied.
  double copy_time(std::uint32_t i) const {
    return bytes_of(i) / options.copy_rate;
  }
  std::size_t pgpus() const {
    return options.cluster.nodes * options.cluster.gpus_per_node;
  }
  double bytes() const { // of the cluster
    return static_cast<double>(options.cluster.memory) *
           static_cast<double>(options.cluster.nodes) *
           options.cluster.gpus_per_node;
  }

  const std::vector<arrival>& trace;
  const simulation_options& options;
  std::vector<guest> sessions;
  calendar events;
  double now = 0; // seconds
  outcome out;
};

} // namespace vgpu::simulator
