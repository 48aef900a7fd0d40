// Who is where in a simulated cluster, and who could be.
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

/// The books: nodes, what is reserved of their pGPUs, and groups. Asks the
/// placement policy, and counts what that takes.
class places {
public:
  explicit places(scene& all);

  /// Whether it could ever have one.
  bool admits(std::uint32_t i) const;
  /// With what depends on where others are, and on its own past.
  policy::demand demand_of(std::uint32_t i) const;
  /// By the policy that is simulated, now.
  std::optional<policy::place> choose(std::uint32_t i);
  /// Whether it has room at `where`, one pGPU. No policy is asked.
  bool may_move(std::uint32_t i, const policy::place& where) const;

  /// It is there from now on,
  void enter(std::uint32_t i, policy::place where);
  /// or no more where it was.
  void strike(std::uint32_t i);

  /// What it will get soonest is taken by nobody behind it, until let_go().
  void keep_for(std::uint32_t i);
  void let_go() { index_.let_go(); }

  /// Whether its program's host has GPUs.
  bool could_be_local(std::uint32_t i) const;
  /// Of the cluster's memory.
  double promised_part() const { return promised_ / scene_.bytes(); }
  const policy::placement_index& index() const noexcept { return index_; }

private:
  /// Enters it in the books, or strikes it out.
  void count(std::uint32_t i, int times);

  scene& scene_;
  policy::cluster_extent extent_;
  policy::placement_index index_;
  std::vector<std::size_t> on_node_; // vGPUs
  std::unordered_map<std::string, std::uint32_t> nodes_;
  std::unordered_map<std::uint64_t, std::set<std::uint32_t>> groups_;
  double promised_ = 0; // bytes
};

} // namespace vgpu::simulator
