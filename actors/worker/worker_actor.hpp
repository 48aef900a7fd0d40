// The messages and the typed handle of a worker's actor. The behaviour is in
// worker.hpp.
#pragma once

#include "actors/link/link_actor.hpp"
#include "actors/link/protocol.hpp"
#include "actors/state/vgpu_actor.hpp"

#include <caf/all.hpp>

namespace vgpu {

/// Tells a worker's actor, once, that its orders have come and that `vgpu` has
/// the session.
struct worker_begins {
  vgpu_actor vgpu;
};

/// Has a worker's actor tell the node something about the standby.
struct standby_said {
  control::standby_news news;
};

/// Has the node end the standbys on the session's devices, whose memory it
/// needs. The answer comes when they have ended: whether there were any.
struct standbys_in_the_way {};

/// Represents one session's worker to its node.
using worker_actor = caf::typed_actor<
    // The node says something. The link sends it.
    caf::reacts_to<incoming_ptr>,
    // The connection to the node stands, or is lost. The link sends it.
    caf::reacts_to<link_event_ptr>,
    // The session is served from now on. The process sends it, once.
    caf::reacts_to<worker_begins>,
    // The vGPU wants a standby, or has news of it.
    caf::reacts_to<standby_said>,
    caf::replies_to<standbys_in_the_way>::with<bool>,
    // The actor sends it to itself for each heartbeat.
    caf::reacts_to<caf::tick_atom>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::worker_begins)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::standby_said)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::standbys_in_the_way)
