#pragma once

#include "actors/link/log_limit.hpp"
#include "actors/manager/cluster/audit_trail.hpp"
#include "actors/manager/election/election.hpp"
#include "actors/manager/election/etcd_access.hpp"
#include "actors/manager/manager_actor.hpp"
#include "actors/manager/manager_core.hpp"
#include "actors/manager/status_writer_actor.hpp"

#include <caf/all.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Holds what one of several managers needs. A manager without etcd always
/// leads.
struct candidacy {
  election_options election;
  std::shared_ptr<etcd_access> etcd;
};

/// Holds the actor's state: the state machine of a leading manager, that of a
/// candidate, and the armed timer.
struct manager_state {
  // Declared so that the state is no aggregate: CAF 0.17 would initialise the
  // first member of one from the actor pointer.
  manager_state() = default;

  static constexpr const char* name = "vgpu.manager";
  manager_options options;
  std::shared_ptr<store> kept;
  link_actor link;
  /// Composes what the manager shows.
  status_writer_actor writer;
  std::shared_ptr<etcd_access> etcd;
  /// Holds the candidate; null: the manager always leads.
  std::unique_ptr<election> race;
  /// Holds the leading manager; null: this one stands by.
  std::unique_ptr<manager_core> core;
  /// Holds the hello of each connected peer. A manager that begins to lead
  /// welcomes them.
  std::map<std::string, control::envelope> greeted;
  /// Holds whom the keys of connected peers name, if they have keys.
  std::map<std::string, principal_ptr> keyed;
  std::optional<time_point> armed;
  log_limit refused;
  /// Writes who ordered what.
  audit_trail trail;
  time_point started;
};

/// Implements the cluster's manager as an actor, which sends its messages to
/// `link`. A command stops it, and the link with it. `kept` may be null.
manager_actor::behavior_type
manager(manager_actor::stateful_pointer<manager_state> self,
        manager_options options, std::shared_ptr<store> kept, link_actor link);

/// Implements one of several managers. While it leads it acts as manager();
/// otherwise it answers each hello and each question with the leader's
/// endpoint.
manager_actor::behavior_type
manager_candidate(manager_actor::stateful_pointer<manager_state> self,
                  manager_options options, std::shared_ptr<store> kept,
                  link_actor link, candidacy how);

/// Returns a secret random number from the kernel, never 0.
std::uint64_t random_number();

/// Returns the seconds since 1970.
double wall_time();

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::manager_options)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::candidacy)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::store>)
