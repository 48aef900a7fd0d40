// The records that the parts of a manager share.
#pragma once

#include "actors/link/directory.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/store.hpp"
#include "actors/records/records.hpp"
#include "policies/placement/views.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace vgpu {

/// A worker that a node runs, of a session that no record names yet.
struct unclaimed_worker {
  std::string node;
  control::running_session running;
  /// When the worker is stopped, unless a client claims its session.
  time_point until;
};

/// What a manager knows of its cluster: nodes, sessions, and the names under
/// which they are found. The manager's core owns it; every part that is given a
/// reference says in its own header what it changes.
struct cluster_state {
  /// By name.
  std::map<std::string, node_record> nodes;
  std::map<session_id, session_record> sessions;
  /// The sessions that belong to a group, by group.
  std::set<std::pair<std::uint64_t, session_id>> groups;
  std::map<session_id, unclaimed_worker> unclaimed;
  /// Names of the nodes that take no sessions, whether they are here or not.
  std::set<std::string> drained;
  /// Where each vGPU's worker is to be found.
  directory names;
  /// Where sessions are kept beyond this manager's life; null: nowhere.
  store* kept = nullptr;

  // -- sessions ---------------------------------------------------------------

  /// Adds a session, which waits for memory from `now` on.
  session_record& add(session_record x, time_point now);
  /// Takes a session out of the records, which must have it.
  session_record remove(session_id id);
  /// Null when there is no such session.
  session_record* find(session_id id);
  /// Writes a session into the store, if there is one.
  void save(const session_record& x);
  /// What a place for the session must have, by its specification, its past,
  /// and where others are.
  policy::demand demand_of(const session_record& x) const;

  // -- nodes ------------------------------------------------------------------

  bool alive(const std::string& node) const;
  /// Whether both nodes are alive and on the same host.
  bool on_one_host(const std::string& node, const std::string& other) const;
  /// Whether a command may name this node.
  status check_node(const std::string& name) const;
  /// Whether a command may name this pGPU.
  status check_pgpu(const std::string& node, std::uint32_t ordinal) const;

  // -- what decisions about places see ----------------------------------------

  /// Every node and pGPU, with what the sessions take of it.
  policy::cluster_view view() const;
  /// The same for placing sessions: nodes that are drained, or whose
  /// connections have just closed, do not count as alive.
  policy::cluster_view view_for_placement() const;
};

} // namespace vgpu
