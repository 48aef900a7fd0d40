// The messages and the typed handles of the client actor. The behaviour is in
// client.hpp.
#pragma once

#include "actors/client/session_client_actor.hpp"
#include "actors/link/link_actor.hpp"
#include "actors/link/protocol.hpp"
#include "schema/log/session_area.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace vgpu {

/// Says that a program opened its session.
struct guest_opened {
  control::program program;
  /// Holds the memory that the program and its client share.
  std::shared_ptr<const session_area> area;
  control::specification specification;
  /// Is set where the session exists already, because its former client died.
  std::optional<control::adopt> resumed;
};
using guest_opened_ptr = std::shared_ptr<const guest_opened>;

/// Asks for the vGPUs of a group; answered with watched_ptr.
struct guest_watches {
  std::uint64_t group = 0;
};
using guest_watches_ptr = std::shared_ptr<const guest_watches>;

/// Holds a message of a session for the manager.
using control_body_ptr = std::shared_ptr<const control::body>;

/// Says that a program has waited for a manager for long enough. `key` names
/// its session as the client counts.
struct client_impatient {
  std::uint64_t key = 0;
};

/// Says that the client had no session for long enough, if none came since
/// `round` began.
struct client_idle {
  std::uint64_t round = 0;
};

/// Owns session_clients, and receives their messages.
using session_owner = caf::typed_actor<
    // A session_client's program opened a session.
    caf::reacts_to<session_client_actor, guest_opened_ptr>,
    // A session_client's program only watches.
    caf::reacts_to<session_client_actor, guest_watches_ptr>,
    // A session_client has a message for the manager.
    caf::reacts_to<control_body_ptr>>;

/// Represents the sessions of one host's programs to the manager.
using client_actor = caf::typed_actor<
    // A session_client's program opened a session.
    caf::reacts_to<session_client_actor, guest_opened_ptr>,
    // A session_client's program only watches.
    caf::reacts_to<session_client_actor, guest_watches_ptr>,
    // A session_client has a message for the manager.
    caf::reacts_to<control_body_ptr>,
    // The manager says something. The link sends it.
    caf::reacts_to<incoming_ptr>,
    // The connection to the manager is lost. The link sends it.
    caf::reacts_to<link_event_ptr>,
    // The client sends it to itself for each session that has no lease.
    caf::reacts_to<client_impatient>,
    // The client sends it to itself when its last session is over.
    caf::reacts_to<client_idle>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::guest_opened_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::guest_watches_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::control_body_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::client_impatient)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::client_idle)
