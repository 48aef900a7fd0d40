// The commands that move vGPUs: suspend, resume, migrate and drain.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "actors/manager/sessions/session_placement.hpp"

#include <optional>
#include <string>

namespace vgpu {

/// Checks the commands, chooses where a vGPU goes, and orders the movements. Of
/// the records it changes only which nodes are drained. Not thread-safe.
class movement_commands {
public:
  movement_commands(const manager_options& options, cluster_state& state,
                    outbox& out, capacity_index& capacity,
                    session_placement& placement, movement& moves);
  movement_commands(const movement_commands&) = delete;
  movement_commands& operator=(const movement_commands&) = delete;

  void handle(const std::string& peer, const control::envelope& from,
              const control::suspend_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::resume_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::migrate_vgpu& x);
  /// Drains a node. If it is drained already, moves the sessions that could not
  /// be moved before.
  void handle(const std::string& peer, const control::envelope& from,
              const control::drain_node& x);

private:
  /// Returns the place to which a migration goes, if that is possible now.
  result<policy::place> target_of(const session_record& x,
                                  const control::migrate_vgpu& what) const;
  void set_draining(node_record& node, bool draining);
  void move_all_off(const std::string& node);

  const manager_options& options_;
  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  session_placement& placement_;
  movement& moves_;
};

} // namespace vgpu
