// What room the cluster has, kept up to date while sessions come and go.
#pragma once

#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "policies/placement/admission.hpp"
#include "policies/placement/placement_index.hpp"

#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// The placement index over a cluster's records. It is built from
/// cluster_state::view_for_placement() when it is asked for, follows sessions
/// by recount(), and is built anew after nodes_changed(). It changes nothing of
/// the records but session_record::counted. One thread.
class capacity_index {
public:
  capacity_index(const manager_options& options, cluster_state& state);
  capacity_index(const capacity_index&) = delete;
  capacity_index& operator=(const capacity_index&) = delete;

  /// The index as of now.
  policy::placement_index& index();
  /// The largest memory and the largest node, which admission goes by.
  const policy::cluster_extent& extent();

  /// To be called when a node has come, gone or changed.
  void nodes_changed();
  /// To be called when a session's stage, place or specification has changed.
  void recount(session_record& x);
  /// To be called when a session has been removed from the records.
  void strike_out(session_record& x);

  /// Where the index differs from the records, for a test; empty: nowhere.
  std::string difference() const;

private:
  const manager_options& options_;
  cluster_state& state_;
  std::unique_ptr<policy::placement_index> index_;
  std::optional<policy::cluster_extent> extent_;
};

} // namespace vgpu
