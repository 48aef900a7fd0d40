// What the programs of a simulation do, and how fast.
#pragma once

#include "policies/simulator/devices.hpp"
#include "policies/simulator/scene.hpp"

#include <cstddef>
#include <cstdint>

namespace vgpu::simulator {

/// Programs alternate between work and idle phases. A program's speed follows
/// from what its pGPUs give it, which changes whenever another program comes or
/// goes.
class programs {
public:
  explicit programs(scene& all);

  /// Adds the program to the pGPUs of its place.
  void settle(std::uint32_t i);
  /// Removes the program from its pGPUs.
  void leave(std::uint32_t i);

  /// Sets the work up to the first idle phase.
  void begin(std::uint32_t i);
  /// Makes the program use its pGPUs.
  void work(std::uint32_t i);
  /// Makes the program stand still.
  void rest(std::uint32_t i);
  /// Ends a piece of work. Returns true if the program is idle from now on, and
  /// false if it has ended.
  bool is_idle_now(std::uint32_t i);
  /// Ends an idle phase.
  void wake(std::uint32_t i);

  /// Returns the sum of all grants of all pGPUs.
  double busy() const noexcept { return devices_.busy(); }
  /// Returns whether any pGPU is overloaded.
  bool is_any_overloaded() const noexcept { return devices_.overloaded() != 0; }
  /// Returns the sum of the loads on this pGPU.
  double wanted(std::uint32_t pgpu) const { return devices_.wanted(pgpu); }

private:
  template <class F>
  void for_pgpus(const simulated_session& g, F f) const {
    for (auto ordinal : g.where.pgpus)
      f(g.node * scene_.options.cluster.gpus_per_node + ordinal);
  }
  void advance(std::uint32_t i);
  void want(std::uint32_t i, double load);
  void reckon(std::uint32_t i);

  scene& scene_;
  shared_devices devices_;
  /// Counts the pGPUs in use.
  std::size_t in_use_ = 0;
};

} // namespace vgpu::simulator
