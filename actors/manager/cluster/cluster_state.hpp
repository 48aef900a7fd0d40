// The records that the parts of a manager share.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/store.hpp"
#include "actors/records/directory.hpp"
#include "actors/records/records.hpp"
#include "policies/placement/views.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace vgpu {

/// Describes a worker that a node runs for a session without a record.
struct unclaimed_worker {
  std::string node;
  control::running_session running;
  /// Says when the worker is stopped unless a client claims its session.
  time_point until;
};

/// Holds what a manager knows of its cluster: nodes, sessions and their names.
/// The manager's core owns it. Each part that gets a reference says in its own
/// header what it changes.
struct cluster_state {
  /// Holds the nodes by name.
  std::map<std::string, node_record> nodes;
  std::map<session_id, session_record> sessions;
  /// Holds the sessions that belong to a group, by group.
  std::set<std::pair<std::uint64_t, session_id>> groups;
  std::map<session_id, unclaimed_worker> unclaimed;
  /// Names the drained nodes, whether they are registered or not.
  std::set<std::string> drained;
  /// Holds the limits of the tenants that were added, by name.
  std::map<std::string, control::tenant_limits> tenants;
  /// Holds where each vGPU's worker is.
  directory names;
  /// Keeps sessions beyond this manager's life; null: there is no store.
  store* kept = nullptr;

  // -- sessions ---------------------------------------------------------------

  /// Adds a session, which waits for memory from `now` on.
  session_record& add(session_record x, time_point now);
  /// Removes a session, which must be in the records, and returns it.
  session_record remove(session_id id);
  /// Returns null when there is no such session.
  session_record* find(session_id id);
  /// Writes a session into the store, if there is one.
  void save(const session_record& x);
  /// Returns the demands on a place for the session: from its specification,
  /// its past and the places of other sessions.
  policy::demand demand_of(const session_record& x) const;

  // -- nodes ------------------------------------------------------------------

  bool alive(const std::string& node) const;
  /// Returns whether both nodes are alive and on the same host.
  bool on_one_host(const std::string& node, const std::string& other) const;
  /// Returns a fault if a command may not name this node.
  status check_node(const std::string& name) const;
  /// Returns a fault if a command may not name this pGPU.
  status check_pgpu(const std::string& node, std::uint32_t ordinal) const;

  // -- views for decisions about places ---------------------------------------

  /// Returns every node and pGPU, with what the sessions take of it.
  policy::cluster_view view() const;
  /// Returns the same for placing sessions: here nodes that are drained, or
  /// whose connections have just closed, do not count as alive.
  policy::cluster_view view_for_placement() const;
};

} // namespace vgpu
