// The state that all parts of a simulation share.
#pragma once

#include "policies/placement/constraints.hpp"
#include "policies/simulator/calendar.hpp"
#include "policies/simulator/simulated_sessions.hpp"
#include "policies/simulator/simulation.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vgpu::simulator {

/// Describes the vGPUs, the time and the future events. vGPUs are numbers, in
/// the order of the trace. The parts of a simulation share this object. Each
/// part writes its own members of a vGPU and of the outcome, and keeps no
/// copies.
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
  /// Returns the seconds for which the vGPU stands still while its memory is
  /// copied.
  double copy_time(std::uint32_t i) const {
    return bytes_of(i) / options.copy_rate;
  }
  std::size_t pgpus() const {
    return options.cluster.nodes * options.cluster.gpus_per_node;
  }
  /// Returns the bytes of the whole cluster.
  double bytes() const {
    return static_cast<double>(options.cluster.memory) *
           static_cast<double>(options.cluster.nodes) *
           options.cluster.gpus_per_node;
  }

  const std::vector<arrival>& trace;
  const simulation_options& options;
  std::vector<simulated_session> sessions;
  calendar events;
  /// Is the present time, in seconds.
  double now = 0;
  outcome out;
};

} // namespace vgpu::simulator
