// The room that the cluster has, kept up to date while sessions come and go.
#pragma once

#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "policies/placement/admission.hpp"
#include "policies/placement/placement_index.hpp"

#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Keeps the placement index over a cluster's records. It builds the index from
/// cluster_state::view_for_placement() on demand, updates it by recount(), and
/// builds it anew after nodes_changed(). Of the records it changes only
/// session_record::counted. Not thread-safe.
class capacity_index {
public:
  capacity_index(const manager_options& options, cluster_state& state);
  capacity_index(const capacity_index&) = delete;
  capacity_index& operator=(const capacity_index&) = delete;

  /// Returns the index as of now.
  policy::placement_index& index();
  /// Returns the largest memory and the largest node, which admission uses.
  const policy::cluster_extent& extent();

  /// Call it when a node has come, gone or changed.
  void nodes_changed();
  /// Call it when a session's stage, place or specification has changed.
  void recount(session_record& x);
  /// Call it when a session was removed from the records.
  void strike_out(session_record& x);

  /// Returns where the index differs from the records, for a test; empty:
  /// nowhere.
  std::string difference() const;

private:
  const manager_options& options_;
  cluster_state& state_;
  std::unique_ptr<policy::placement_index> index_;
  std::optional<policy::cluster_extent> extent_;
};

} // namespace vgpu
