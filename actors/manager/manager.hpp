#pragma once

#include "actors/manager/election/election.hpp"
#include "actors/manager/election/etcd_access.hpp"
#include "actors/manager/manager_actor.hpp"
#include "actors/manager/manager_core.hpp"

#include <caf/all.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// What a manager needs that is one of several. A manager without etcd leads
/// always.
struct candidacy {
  election_options election;
  std::shared_ptr<etcd_access> etcd;
};

/// The actor's state: the state machine of a manager that leads, that of a
/// candidate, and the timer that is armed.
struct manager_state {
  // Declared so that the state is no aggregate: CAF 0.17 would initialise the
  // first member of one from the actor pointer.
  manager_state() = default;

  static constexpr const char* name = "vgpu.manager";
  manager_options options;
  std::shared_ptr<store> kept;
  link_actor link;
  std::shared_ptr<etcd_access> etcd;
  /// Null: the manager leads always.
  std::unique_ptr<election> race;
  /// Null while the manager stands by.
  std::unique_ptr<manager_core> core;
  /// The hello of each connected peer: a manager that begins to lead welcomes
  /// them.
  std::map<std::string, control::envelope> greeted;
  std::optional<time_point> armed;
  time_point started;
};

/// The cluster's manager as an actor, which sends what it says to `link`. It
/// stops when a command says so, and the link with it. `kept` may be null.
manager_actor::behavior_type
manager(manager_actor::stateful_pointer<manager_state> self,
        manager_options options, std::shared_ptr<store> kept, link_actor link);

/// One of several managers, of which one leads. While it leads it is a manager;
/// while it does not, it tells peers that say hello or ask which one does.
manager_actor::behavior_type
manager_candidate(manager_actor::stateful_pointer<manager_state> self,
                  manager_options options, std::shared_ptr<store> kept,
                  link_actor link, candidacy how);

/// A secret number from the kernel, never 0.
std::uint64_t random_number();

/// Seconds since 1970.
double wall_time();

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::manager_options)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::candidacy)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::store>)
