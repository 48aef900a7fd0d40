#pragma once

#include "actors/link/link.hpp"
#include "actors/manager/election.hpp"
#include "actors/manager/etcd_access.hpp"
#include "actors/manager/manager_core.hpp"

#include <caf/all.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// What a manager needs that is one of several. Without etcd it leads always.
struct candidacy {
  election_options election;
  std::shared_ptr<etcd_access> etcd;
};

/// To a manager: end in order, and leave the lead to another at once.
struct manager_resign {};

/// The actor's state: the state machine of a manager that leads, that of a
/// candidate, and the timer that is armed.
struct manager_state {
  // Declared so that the state is no aggregate: CAF 0.17 would initialise the
  // first member of one from the actor pointer.
  manager_state() = default;

  static constexpr const char* name = "vgpu.manager";
  manager_options options;
  std::shared_ptr<store> kept;
  caf::actor link;
  std::shared_ptr<etcd_access> etcd;
  std::unique_ptr<election> race;     // null: it leads always
  std::unique_ptr<manager_core> core; // null while it stands by
  /// Who is connected, and the hello: a manager that begins to lead welcomes
  /// them.
  std::map<std::string, control::envelope> greeted;
  std::optional<time_point> armed;
  time_point started;
};

/// The cluster's brain as an actor. Takes incoming_ptr and link_event_ptr from
/// `link` and sends it outgoing_ptr; stops when a command says so, and the
/// link with it. `kept` may be null.
caf::behavior manager(caf::stateful_actor<manager_state>* self,
                      manager_options options, std::shared_ptr<store> kept,
                      caf::actor link);

/// One of several, of which one leads: a manager while it does. While it does
/// not, whoever says hello or asks is told who does. Takes etcd_answer_ptr and
/// manager_resign besides.
caf::behavior manager_candidate(caf::stateful_actor<manager_state>* self,
                                manager_options options,
                                std::shared_ptr<store> kept, caf::actor link,
                                candidacy how);

/// A secret number from the kernel, never 0.
std::uint64_t random_number();

/// Seconds since 1970.
double wall_time();

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::manager_options)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::manager_resign)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::candidacy)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::store>)
