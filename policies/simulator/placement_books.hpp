// Which vGPU is where in a simulated cluster, and where it could be.
#pragma once

#include "policies/placement/admission.hpp"
#include "policies/placement/placement_index.hpp"
#include "policies/simulator/scene.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace vgpu::simulator {

/// Keeps the books: nodes, the reserved parts of their pGPUs, and groups. It
/// calls the placement policy and measures its time.
class places {
public:
  explicit places(scene& all);

  /// Returns whether the vGPU could ever have a place.
  bool admits(std::uint32_t i) const;
  /// Returns its demand, including what depends on other vGPUs and on its past.
  policy::demand demand_of(std::uint32_t i) const;
  /// Chooses a place by the simulated policy, as of now.
  std::optional<policy::place> choose(std::uint32_t i);
  /// Returns whether it has room at `where`, one pGPU. It does not call the
  /// policy.
  bool may_move(std::uint32_t i, const policy::place& where) const;

  /// Records that the vGPU is at this place.
  void enter(std::uint32_t i, policy::place where);
  /// Records that the vGPU has left its place.
  void strike(std::uint32_t i);

  /// Keeps its earliest available place from all vGPUs behind it, until
  /// release_kept().
  void keep_for(std::uint32_t i);
  void release_kept() { index_.release_kept(); }

  /// Returns whether its program's host has pGPUs.
  bool could_be_local(std::uint32_t i) const;
  /// Returns the promised part of the cluster's memory.
  double promised_part() const { return promised_ / scene_.bytes(); }
  const policy::placement_index& index() const noexcept { return index_; }

private:
  /// Enters the vGPU in the books (1), or removes it (-1).
  void count(std::uint32_t i, int times);

  scene& scene_;
  policy::cluster_extent extent_;
  policy::placement_index index_;
  /// Counts the vGPUs on each node.
  std::vector<std::size_t> on_node_;
  std::unordered_map<std::string, std::uint32_t> nodes_;
  std::unordered_map<std::uint64_t, std::set<std::uint32_t>> groups_;
  /// Holds the promised bytes.
  double promised_ = 0;
};

} // namespace vgpu::simulator
