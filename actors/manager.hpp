#pragma once

#include "actors/link.hpp"
#include "actors/manager_core.hpp"

#include <caf/all.hpp>

#include <memory>

namespace vgpu {

/// The actor's state: the state machine, and the timer that is armed.
struct manager_state {
  // Declared so that the state is no aggregate: CAF 0.17 would initialise the
  // first member of one from the actor pointer.
  manager_state() = default;

  static constexpr const char* name = "vgpu.manager";
  std::unique_ptr<manager_core> core;
  std::optional<time_point> armed;
};

/// The cluster's brain as an actor. Takes incoming_ptr and link_event_ptr from
/// `link` and sends it outgoing_ptr; stops when a command says so, and the
/// link with it. `kept` may be null.
caf::behavior manager(caf::stateful_actor<manager_state>* self,
                      manager_options options, std::shared_ptr<store> kept,
                      caf::actor link);

/// A secret number from the kernel, never 0.
std::uint64_t random_number();

/// Seconds since 1970.
double wall_time();

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::manager_options)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::store>)
