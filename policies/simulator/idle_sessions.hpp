// vGPUs that are idle long enough to be suspended for others.
#pragma once

#include "policies/lifecycle/reclaim.hpp"
#include "policies/simulator/scene.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace vgpu::simulator {

/// Holds the idle vGPUs that may be suspended, a few on a node at a time.
class idle_sessions {
public:
  explicit idle_sessions(const scene& all)
      : scene_(all), nodes_(all.options.cluster.nodes) {}

  /// Records that a vGPU is idle, and may be suspended when it has been so for
  /// long enough.
  void note(std::uint32_t i);
  /// Records that it may not be suspended any more.
  void forget(std::uint32_t i) {
    const auto& g = scene_.sessions[i];
    nodes_[g.node].idle.erase({g.idle_from, i});
  }
  /// Returns the vGPUs to suspend now. Each counts as being suspended until
  /// has_left().
  std::vector<std::uint32_t> choose();
  /// Records that the suspending of a vGPU has ended.
  void has_left(std::uint32_t i);

private:
  /// Holds the idle vGPUs of one node.
  struct on_node {
    /// Holds the idle vGPUs by the begin of their idleness.
    std::set<std::pair<double, std::uint32_t>> idle;
    std::size_t suspending = 0;
  };

  void look_at(std::uint32_t node, std::vector<policy::idle_session>& view,
               policy::suspensions& under_way) const;

  const scene& scene_;
  std::vector<on_node> nodes_;
  /// Holds the nodes where more may leave since choose().
  std::set<std::uint32_t> changed_;
};

} // namespace vgpu::simulator
