// What the programs of a simulation do, and how fast.
#pragma once

#include "policies/simulator/devices.hpp"
#include "policies/simulator/scene.hpp"

#include <cstddef>
#include <cstdint>

namespace vgpu::simulator {

/// Programs work and are idle by turns. How fast one works goes by what its
/// pGPUs give it, and that changes with everybody who comes to them or goes.
class programs {
public:
  explicit programs(scene& all);

  /// Comes to the pGPUs of its place,
  void settle(std::uint32_t i);
  /// and leaves them.
  void leave(std::uint32_t i);

  /// Its work, up to its first idle phase, is before it.
  void begin(std::uint32_t i);
  /// It uses its pGPUs,
  void work(std::uint32_t i);
  /// and stands still.
  void rest(std::uint32_t i);
  /// What it had to do is done: it is idle from now on, or (false) at its end.
  bool is_idle_now(std::uint32_t i);
  /// It has something to do again.
  void wake(std::uint32_t i);

  /// What all get of all pGPUs.
  double busy() const noexcept { return devices_.busy(); }
  /// Whether any pGPU is wanted more than it can give.
  bool is_any_overloaded() const noexcept { return devices_.overloaded() != 0; }
  /// What all want of this one.
  double wanted(std::uint32_t pgpu) const { return devices_.wanted(pgpu); }

private:
  template <class F>
  void for_pgpus(const guest& g, F f) const {
    for (auto ordinal : g.where.pgpus)
      f(g.node * scene_.options.cluster.gpus_per_node + ordinal);
  }
  void advance(std::uint32_t i);
  void want(std::uint32_t i, double load);
  void reckon(std::uint32_t i);

  scene& scene_;
  shared_devices devices_;
  std::size_t in_use_ = 0; // pGPUs
};

} // namespace vgpu::simulator
