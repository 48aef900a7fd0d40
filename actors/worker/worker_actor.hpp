// The messages and the typed handle of a worker's actor. The behaviour is in
// worker.hpp.
#pragma once

#include "actors/link/link_actor.hpp"
#include "actors/state/vgpu_actor.hpp"

#include <caf/all.hpp>

namespace vgpu {

/// Tells a worker's actor, once, that its orders have come and that `vgpu` has
/// the session.
struct worker_begins {
  vgpu_actor vgpu;
};

/// Represents one session's worker to its node.
using worker_actor = caf::typed_actor<
    // The node says something. The link sends it.
    caf::reacts_to<incoming_ptr>,
    // The connection to the node stands, or is lost. The link sends it.
    caf::reacts_to<link_event_ptr>,
    // The session is served from now on. The process sends it, once.
    caf::reacts_to<worker_begins>,
    // The actor sends it to itself for each heartbeat.
    caf::reacts_to<caf::tick_atom>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::worker_begins)
