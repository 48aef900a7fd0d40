// Sums over the vGPUs of a simulation.
#pragma once

#include "policies/simulator/scene.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::simulator {

/// Says how long each vGPU waited, and how much longer it took than alone.
class tally {
public:
  explicit tally(scene& all) : scene_(all) {}

  /// Records that a vGPU got its first place.
  void is_placed(std::uint32_t i);
  /// Records that its program ended.
  void is_done(std::uint32_t i);
  /// Fills in the outcome when no event is left.
  void finish();

private:
  double waited_by(std::uint32_t i) const;

  scene& scene_;
  std::vector<double> first_waits_;
  std::vector<double> slowdowns_;
  std::vector<double> speeds_;
};

} // namespace vgpu::simulator
