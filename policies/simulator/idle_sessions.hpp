// Who has been idle for so long that others may have its place.
#pragma once

#include "policies/lifecycle/reclaim.hpp"
#include "policies/simulator/scene.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace vgpu::simulator {

/// Idle vGPUs that may be suspended, a few of a node at a time.
class idle_sessions {
public:
  explicit idle_sessions(const scene& all)
      : scene_(all), nodes_(all.options.cluster.nodes) {}

  /// It is idle, and may be suspended if it has been for long enough.
  void note(std::uint32_t i);
  /// It may not be any more.
  void forget(std::uint32_t i) {
    const auto& g = scene_.sessions[i];
    nodes_[g.node].idle.erase({g.idle_from, i});
  }
  /// Who is suspended now; each until has_left().
  std::vector<std::uint32_t> choose();
  void has_left(std::uint32_t i);

private:
  struct on_node {
    std::set<std::pair<double, std::uint32_t>> idle; // by since when
    std::size_t suspending = 0;
  };

  void look_at(std::uint32_t node, std::vector<policy::idle_session>& view,
               policy::suspensions& under_way) const;

  const scene& scene_;
  std::vector<on_node> nodes_;
  std::set<std::uint32_t> changed_; // nodes, since choose(): more may leave
};

} // namespace vgpu::simulator
