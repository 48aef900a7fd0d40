// The parts of a session_client.
#pragma once

#include "actors/client/answer_delivery.hpp"
#include "actors/client/checkpointed_process.hpp"
#include "actors/client/fence.hpp"
#include "actors/client/opened_session.hpp"
#include "actors/client/replay_report.hpp"
#include "actors/client/session_client_options.hpp"
#include "actors/client/session_handover.hpp"
#include "actors/client/session_lease.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/client/session_restore.hpp"
#include "actors/client/session_snapshots.hpp"
#include "actors/client/session_worker.hpp"

#include <caf/all.hpp>

namespace vgpu {

/// What a session_client is made of from the moment its program opens its
/// session. Each part gets what it may touch, and all of that comes before it
/// here.
struct session_parts {
  session_parts(opened_session what, const session_client_options& options,
                const session_owner& client, checkpoint_listener& listener)
      : opened(std::move(what)), reports(client, lease, opened),
        fence(opened.program.host, options.lease_term), replay(lease, reports),
        restore(opened, lease, reports), answers(opened),
        handover({opened, lease, reports, worker, listener}, options),
        snapshots({opened, lease, reports, worker, listener}, options, restore),
        process(lease, reports) {}
  session_parts(const session_parts&) = delete;
  session_parts& operator=(const session_parts&) = delete;

  /// The program's facts, its memory and its call log.
  opened_session opened;
  /// What the manager granted.
  session_lease lease;
  /// What the manager hears.
  session_reports reports;
  /// Keeps a former worker from executing.
  worker_fence fence;
  /// How far a worker has replayed.
  replay_report replay;
  /// What the next worker begins with.
  session_restore restore;
  /// Where answers of a forwarded worker go.
  answer_delivery answers;
  /// The way to the worker.
  session_worker worker;
  /// The checkpoint by which the session leaves its worker.
  session_handover handover;
  /// The checkpoints by which it is protected.
  session_snapshots snapshots;
  /// The worker process that was checkpointed as it is.
  checkpointed_process process;
};

} // namespace vgpu
