// What became of the vGPUs of a simulation, in all.
#pragma once

#include "policies/simulator/scene.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::simulator {

/// How long each vGPU waited, and how much longer it took than alone.
class tally {
public:
  explicit tally(scene& all) : scene_(all) {}

  /// It has its first place.
  void is_placed(std::uint32_t i);
  /// Its program is at its end.
  void is_done(std::uint32_t i);
  /// Nothing happens any more: what the outcome says of all of them.
  void finish();

private:
  double waited_by(std::uint32_t i) const;

  scene& scene_;
  std::vector<double> first_waits_;
  std::vector<double> slowdowns_;
  std::vector<double> speeds_;
};

} // namespace vgpu::simulator
