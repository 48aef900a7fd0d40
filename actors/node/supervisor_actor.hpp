// The messages and the typed handles of a node's supervisor. The behaviour is
// in supervisor.hpp.
#pragma once

#include "actors/link/link_actor.hpp"
#include "actors/node/pgpu_actor.hpp"
#include "actors/node/spawner.hpp"
#include "actors/records/metrics_query.hpp"

#include <caf/all.hpp>

#include <string>

namespace vgpu {

/// Asks a supervisor to end in order: it stops its workers, says goodbye to the
/// manager, and quits.
struct supervisor_stop {};

/// Tells the watcher that the node is registered for the first time.
struct supervisor_ready {};

/// Tells the watcher why the supervisor cannot begin. The supervisor quits.
struct supervisor_failed {
  std::string why;
};

/// Watches a supervisor for the node's process.
using supervisor_watcher = caf::typed_actor<
    // The manager knows the node. The supervisor sends it once.
    caf::reacts_to<supervisor_ready>,
    // The manager refuses the node. The supervisor sends it, and quits.
    caf::reacts_to<supervisor_failed>>;

/// Runs one worker process for each session of a node.
using supervisor_actor = caf::typed_actor<
    // The manager or a worker says something. The link to the manager and the
    // link to the workers send it.
    caf::reacts_to<incoming_ptr>,
    // A connection changed. Both links send it.
    caf::reacts_to<link_event_ptr>,
    // A worker's process runs, or could not be started. The spawner sends it.
    caf::reacts_to<child_started>,
    // A worker's process ended. The spawner sends it.
    caf::reacts_to<child_exited>,
    // A pGPU's state or rules changed. The actor of the pGPU sends it.
    caf::reacts_to<pgpu_changed>,
    // The process received a signal to end, or its owner is gone.
    caf::reacts_to<supervisor_stop>,
    // The metrics server of the process asks for a snapshot.
    caf::replies_to<metrics_ask>::with<metrics_ptr>,
    // The supervisor sends it to itself for each heartbeat.
    caf::reacts_to<caf::tick_atom>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::supervisor_stop)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::supervisor_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::supervisor_failed)
