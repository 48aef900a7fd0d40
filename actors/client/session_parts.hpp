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
#include "policies/lifecycle/growing_patience.hpp"

#include <caf/all.hpp>

#include <functional>

namespace vgpu {

/// Holds the parts of a session_client from the moment when its program opens
/// its session. Each part refers only to parts before it.
struct session_parts {
  session_parts(opened_session what, const session_client_options& options,
                const session_owner& client, checkpoint_listener& listener,
                const std::function<void()>& ring)
      : opened(std::move(what)), reports(client, lease, opened),
        fence(opened.program.host, options.lease_term), replay(lease, reports),
        restore(opened, lease, reports), answers(opened),
        handover({opened, lease, reports, worker, listener,
                  options.state_part_within, ring},
                 options),
        snapshots({opened, lease, reports, worker, listener,
                   options.state_part_within, ring},
                  options, restore),
        process(lease, reports), touches(opened, reports) {}
  session_parts(const session_parts&) = delete;
  session_parts& operator=(const session_parts&) = delete;

  /// Holds the program's description, its memory and its call log.
  opened_session opened;
  /// Holds the manager's lease.
  session_lease lease;
  /// Sends reports to the manager.
  session_reports reports;
  /// Keeps a former worker from executing.
  worker_fence fence;
  /// Follows the worker's replay.
  replay_report replay;
  /// Chooses what the next worker restores.
  session_restore restore;
  /// Writes the answers of a forwarded worker.
  answer_delivery answers;
  /// Limits the silence of its workers.
  policy::growing_patience patience;
  /// Connects to the worker.
  session_worker worker;
  /// Takes the checkpoint with which the session leaves its worker.
  session_handover handover;
  /// Takes the snapshots that protect the session.
  session_snapshots snapshots;
  /// Describes the checkpointed worker process.
  checkpointed_process process;
  /// Reports who serves touches of managed memory.
  touch_report touches;
};

} // namespace vgpu
