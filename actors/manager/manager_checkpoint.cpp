// Suspended sessions that nobody can describe: their workers stay, put aside
// as they are, and have room on their pGPUs when they are brought back.
#include "actors/manager/manager_core.hpp"

#include <vector>

namespace vgpu {

/// Its place has room for it: the worker is the one that it had.
void manager_core::bring_back(session_record& x) {
  x.aside = false;
  x.stage = session_stage::running;
  recount(x);
  x.waiting_because.clear();
  save(x);
  // To a client that is new, the lease alone says so.
  give_lease(x);
  answer(x.client_peer, 0, control::bring_back{x.id, x.epoch});
}

/// Its node has it: what only that one knows, where this manager is new.
void manager_core::take_aside(session_record& x,
                              const control::running_session& worker) {
  x.where.pgpus = worker.pgpus;
  x.worker = worker.worker;
  x.pid = worker.pid;
  save(x);
}

/// Whether its worker was aside, and is lost. What it had is in its journal, if
/// at all.
bool manager_core::lost_aside(session_record& x, const std::string& why) {
  if (!x.aside)
    return false;
  x.aside = false;
  // It may still be there, on a pGPU that is no more.
  send_to_node(x.where.node, control::stop_worker{x.id, x.epoch, why});
  x.pid = 0;
  x.state_bytes = 0;
  emit("worker-exited", "its worker was aside, and is lost: " + why,
       about_session(x));
  directory_.withdraw("vgpu/" + std::to_string(x.vgpu.value), x.epoch);
  save(x);
  if (x.stage == session_stage::waiting)
    place(x);
  return true;
}

} // namespace vgpu
