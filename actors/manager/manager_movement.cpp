// Planned movement: sessions that are suspended, resumed, migrated, and nodes
// that are drained. The state itself goes from worker to client to worker; here
// is only decided when and where to.
#include "actors/link/printable.hpp"
#include "actors/manager/manager_core.hpp"

#include <algorithm>

namespace vgpu {

namespace {

/// For a client to have the memory copied, stop the worker and take its state.
constexpr auto pause_within = std::chrono::minutes{21};
/// For a worker to open its devices. It goes without, then.
constexpr auto prepared_within = std::chrono::seconds{10};

std::string name(const session_record& x) {
  return "vGPU " + std::to_string(x.vgpu.value);
}

std::string name(const policy::place& x) {
  std::string out = x.node + " pGPU";
  for (auto pgpu : x.pgpus)
    out += " " + std::to_string(pgpu);
  return out;
}

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

/// Leaves of the cluster only `wanted`.
policy::cluster_view only(policy::cluster_view cluster,
                          const policy::place& wanted) {
  for (auto& node : cluster.nodes) {
    node.alive = node.alive && node.name == wanted.node;
    for (auto& pgpu : node.pgpus)
      pgpu.healthy =
          pgpu.healthy && (wanted.pgpus.empty() ||
                           std::count(wanted.pgpus.begin(), wanted.pgpus.end(),
                                      pgpu.ordinal) != 0);
  }
  return cluster;
}

/// Leaves of the cluster all but the pGPUs that a session is on.
policy::cluster_view without(policy::cluster_view cluster,
                             const policy::place& here) {
  for (auto& node : cluster.nodes)
    if (node.name == here.node)
      for (auto& pgpu : node.pgpus)
        pgpu.healthy =
            pgpu.healthy &&
            std::count(here.pgpus.begin(), here.pgpus.end(), pgpu.ordinal) == 0;
  return cluster;
}

} // namespace

// -- commands -----------------------------------------------------------------

/// The session of a vGPU; otherwise who asks is refused.
session_record* manager_core::session_of(const std::string& peer,
                                         const control::envelope& from,
                                         vgpu_id id) {
  for (auto& [number, x] : sessions_)
    if (x.vgpu == id)
      return &x;
  refuse(peer, from,
         {CUDA_ERROR_INVALID_HANDLE,
          "no vGPU " + std::to_string(id.value) +
              " has a session; `vgpu status` lists them"});
  return nullptr;
}

status manager_core::may_move(const session_record& x) const {
  if (x.moving)
    return fault{CUDA_ERROR_NOT_READY,
                 name(x) + " is being moved already; wait for that to end"};
  if (x.stage != session_stage::running || x.client_peer.empty())
    return fault{
        CUDA_ERROR_NOT_READY,
        name(x) + " is " + name_of(x.stage) +
            (x.client_peer.empty() ? ", and its client is not here" : "") +
            "; only one that runs can be moved"};
  return {};
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::suspend_vgpu& x) {
  auto* session = session_of(peer, from, x.vgpu);
  if (session == nullptr)
    return;
  if (session->stage == session_stage::suspended && !session->moving) {
    session->held = session->held || x.hold;
    save(*session);
    if (session->held)
      tell_to_hold(*session);
    return answer(peer, from.request, control::done{});
  }
  if (auto ok = may_move(*session); !ok)
    return refuse(peer, from, ok.why());
  order_pause(*session, {.what = session_movement::kind::suspend,
                         .hold = x.hold,
                         .peer = peer,
                         .request = from.request});
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::resume_vgpu& x) {
  auto* session = session_of(peer, from, x.vgpu);
  if (session == nullptr)
    return;
  if (session->stage == session_stage::running && !session->moving)
    return answer(peer, from.request, control::done{});
  if (session->stage != session_stage::suspended || session->moving)
    return refuse(peer, from,
                  {CUDA_ERROR_NOT_READY,
                   name(*session) + " is being moved or placed; wait for that "
                                    "to end"});
  session->moving = session_movement{.what = session_movement::kind::resume,
                                     .from = session->where,
                                     .taken = true,
                                     .peer = peer,
                                     .request = from.request};
  resume(*session, "resumed");
}

/// Where a migration is to go, if that is possible now.
result<std::optional<policy::place>>
manager_core::target_of(const session_record& x,
                        const control::migrate_vgpu& what) const {
  auto refused = [&](const std::string& why) {
    return fault{CUDA_ERROR_NOT_READY, name(x) + " cannot be migrated: " + why};
  };
  std::optional<policy::place> target;
  auto cluster = view();
  for (auto& node : cluster.nodes)
    node.alive = node.alive && !nodes_.at(node.name).draining;
  if (!what.node.empty()) {
    if (auto ok = check_node(what.node); !ok)
      return refused(ok.why().what);
    if (nodes_.at(what.node).draining)
      return refused("node " + what.node +
                     " is drained; `vgpu drain --undo` takes it back");
    target = policy::place{what.node, {}};
    if (what.pgpu >= 0)
      target->pgpus.push_back(static_cast<std::uint32_t>(what.pgpu));
    cluster = only(std::move(cluster), *target);
  }
  auto demand = demand_of(x);
  demand.failing.clear();
  auto found = policy::choose_place(without(cluster, x.where), demand,
                                    options_.placement);
  if (auto* none = std::get_if<policy::no_place>(&found))
    return refused(none->why + ", besides where it is");
  // Decided now: nothing may have changed by the time its state is taken.
  return std::optional{std::get<policy::place>(found)};
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::migrate_vgpu& x) {
  auto* session = session_of(peer, from, x.vgpu);
  if (session == nullptr)
    return;
  if (auto ok = may_move(*session); !ok)
    return refuse(peer, from, ok.why());
  auto target = target_of(*session, x);
  if (!target)
    return refuse(peer, from, target.why());
  order_pause(*session, {.what = session_movement::kind::migrate,
                         .target = *target,
                         .peer = peer,
                         .request = from.request});
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::drain_node& x) {
  if (auto ok = check_node(x.node); !ok)
    return refuse(peer, from, ok.why());
  auto& node = nodes_.at(x.node);
  if (node.draining == !x.undo)
    ; // again: sessions that could not be moved before are tried anew
  else if (x.undo)
    emit("node-undrained", x.node + " takes sessions again",
         {x.node, {}, {}, {}});
  else
    emit("node-drained", x.node + " takes no more sessions",
         {x.node, {}, {}, {}});
  if (store_ && node.draining == x.undo)
    store_->save_drained(x.node, !x.undo);
  node.draining = !x.undo;
  if (x.undo)
    drained_.erase(x.node);
  else
    drained_.insert(x.node);
  cluster_changed();
  answer(peer, from.request, control::done{});
  if (x.undo)
    return retry_waiting();
  for (auto& [id, session] : sessions_) {
    if (session.where.node != x.node || !may_move(session))
      continue;
    auto target = target_of(session, {session.vgpu, "", -1});
    if (target)
      order_pause(session,
                  {.what = session_movement::kind::migrate, .target = *target});
    else
      emit("move-failed", target.why().what, about_session(session));
  }
}

void manager_core::order_pause(session_record& x, session_movement what) {
  what.from = x.where;
  x.moving = std::move(what);
  if (x.moving->target && prepare(x))
    return;
  ask_to_pause(x);
}

/// Has a worker started where the session goes, while it still runs where it
/// is: opening a device may take longer than all the rest.
bool manager_core::prepare(session_record& x) {
  const auto& there = *x.moving->target;
  // As start() will say it.
  control::prepare_worker order{
      x.id, x.vgpu, there.pgpus,
      std::max(x.largest_quota, quota_of(x.spec, there))};
  if (order.pgpus.empty() || !send_to_node(there.node, std::move(order)))
    return false;
  x.moving->prepares = true;
  x.moving->until = now_ + prepared_within;
  due(x.moving->until);
  return true;
}

void manager_core::handle(const std::string& peer, const control::envelope&,
                          const control::worker_prepared& x) {
  auto i = sessions_.find(x.session);
  if (i == sessions_.end() || !i->second.moving ||
      !i->second.moving->prepares ||
      i->second.moving->target->node != node_of(peer))
    return;
  if (x.failure.empty())
    ask_to_pause(i->second);
  else
    finish_movement(i->second, "no worker can be started on " +
                                   name(*i->second.moving->target) + ": " +
                                   printable(x.failure));
}

void manager_core::ask_to_pause(session_record& x) {
  x.moving->prepares = false;
  x.moving->until = now_ + pause_within;
  due(x.moving->until);
  tell_to_pause(x);
}

/// To be repeated where it may have been lost.
void manager_core::tell_to_pause(const session_record& x) {
  control::pause_session order{x.id, x.epoch, {}};
  if (auto& to = x.moving->target; to && on_one_host(to->node, x.where.node))
    order.lend_to = to->pgpus;
  order.suspend = x.moving->what == session_movement::kind::suspend;
  order.hold = x.moving->hold;
  order.turn_over = static_cast<bool>(x.moving->for_whom);
  answer(x.client_peer, 0, std::move(order));
}

/// One that is suspended already: its client has nothing to do, but tells the
/// next manager.
void manager_core::tell_to_hold(const session_record& x) {
  if (x.client_peer.empty())
    return;
  control::pause_session order{x.id, x.epoch, {}};
  order.suspend = order.hold = true;
  answer(x.client_peer, 0, std::move(order));
}

// -- what clients say ---------------------------------------------------------

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::paused& x) {
  auto* session = owned(peer, from, x.session);
  if (session == nullptr || session->epoch != x.epoch)
    return;
  if (x.failure.empty())
    gave_state(*session, x);
  else if (session->stage == session_stage::running && session->moving &&
           !session->moving->taken)
    finish_movement(*session, printable(x.failure));
}

/// A client that gave a worker up is heard even if nobody waits any more: there
/// is nothing left where the session was. A second time changes nothing.
void manager_core::gave_state(session_record& x, const control::paused& how) {
  if (!how.aside)
    x.gave_way = x.epoch;
  if (!x.placed())
    return;
  x.aside = how.aside;
  if (!how.aside) {
    directory_.withdraw("vgpu/" + std::to_string(x.vgpu.value), x.epoch);
    x.pid = 0;
  }
  x.state_bytes = how.bytes;
  x.load = {};
  if (x.moving && x.moving->what == session_movement::kind::suspend)
    return suspended(x, how);
  if (x.moving)
    x.moving->taken = true;
  resume(x, "migrated");
}

/// Its client, or its next one, was not heard for a while: what was on its way
/// to or from it may be lost. The client is served in that epoch.
void manager_core::take_movement_up(session_record& x, vgpu::epoch served) {
  if (!x.moving || served != x.epoch)
    return;
  if (x.moving->taken)
    arrived(x, x.state_bytes, 0);
  else if (!x.moving->prepares)
    tell_to_pause(x);
}

void manager_core::suspended(session_record& x, const control::paused& how) {
  x.stage = session_stage::suspended;
  x.from_before = false;
  recount(x);
  auto idle = x.moving->idle;
  if (x.moving->for_whom)
    note_preempted(x, how);
  x.held = x.moving->hold;
  x.refusals = 0;
  x.waiting_because = x.held        ? "until it is resumed"
                      : x.preempted ? "it made room for others, until its next "
                                      "call and turn"
                      : idle        ? "idle, until its next call"
                                    : "until its next call";
  save(x);
  control::event out;
  out.time = options_.wall_time();
  out.kind = x.preempted ? "session-preempted"
             : idle      ? "session-reclaimed"
                         : "session-suspended";
  out.node = x.where.node;
  out.session = x.id;
  out.vgpu = x.vgpu;
  out.epoch = x.epoch;
  out.bytes = how.bytes;
  out.milliseconds = how.milliseconds;
  out.text =
      name(x) + " left " + name(x.where) + ", " + x.waiting_because +
      (x.aside ? "; nobody could describe it, so its worker stays, and its "
                 "driver has put the worker's " +
                     mebibytes(how.bytes) + " of GPU memory on its host"
               : "; its state of " + mebibytes(how.bytes) +
                     " is on its program's host");
  emit(std::move(out));
  finish_movement(x, "");
  retry_waiting();
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::wake_session& x) {
  if (auto* session = owned(peer, from, x.session))
    wake(*session);
}

/// Its program has called, or its client is new and has no state of it, so that
/// it would not notice a call.
void manager_core::wake(session_record& x) {
  if (x.stage == session_stage::suspended && !x.held && !x.moving)
    resume(x, "called");
}

/// A session whose state is with its client gets a worker.
void manager_core::resume(session_record& x, const std::string& reason) {
  x.stage = session_stage::waiting;
  recount(x);
  x.held = false;
  x.waiting_because.clear();
  x.reason = reason;
  x.displaced_at = now_;
  x.retry_at = now_;
  save(x);
  // In its turn: others may have waited for longer.
  if (x.preempted)
    retry_waiting();
  else
    place(x);
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::restored& x) {
  auto* session = owned(peer, from, x.session);
  if (session == nullptr || session->epoch != x.epoch)
    return;
  has_its_turn(*session, x.milliseconds);
  arrived(*session, x.bytes, x.milliseconds);
}

void manager_core::arrived(session_record& x, std::uint64_t bytes,
                           double milliseconds) {
  x.state_bytes = 0;
  // From its journal, after a failure: others tell of that.
  if (bytes == 0 && !x.moving)
    return;
  auto moved = x.moving && x.moving->what == session_movement::kind::migrate;
  auto back = moved && x.where == x.moving->from;
  control::event out;
  out.time = options_.wall_time();
  auto balanced = moved && !x.moving->why.empty();
  out.kind = back       ? "move-failed"
             : balanced ? "session-balanced"
             : moved    ? "session-migrated"
                        : "session-resumed";
  out.node = x.where.node;
  out.session = x.id;
  out.vgpu = x.vgpu;
  out.epoch = x.epoch;
  out.bytes = bytes;
  out.milliseconds = milliseconds;
  auto where = name(x.where);
  out.text = name(x) +
             (back ? " runs on " + where + " again: " +
                         (x.moving->met.empty() ? "nothing else would have it"
                                                : x.moving->met)
              : moved ? " went from " + name(x.moving->from) + " to " + where +
                            (balanced ? ": " + x.moving->why : "")
                      : " runs on " + where + " again");
  if (moved && !back) {
    x.refusals = 0;
    // A drained node's would be at home again when it is not drained any more.
    if (balanced || x.moving->request != 0)
      x.moved_at = now_;
  }
  auto failure = back ? out.text : std::string{};
  emit(std::move(out));
  finish_movement(x, failure);
}

// -- placement and loss -------------------------------------------------------

/// A place for a session; where a migration has a target, there.
std::variant<policy::place, policy::no_place>
manager_core::choose_for(session_record& x) {
  auto demand = demand_of(x);
  // Its worker is there, also on a node that is drained.
  if (x.aside) {
    demand.failing.clear();
    return policy::choose_place(only(view(), x.where), demand);
  }
  if (!x.moving || !x.moving->taken || !x.moving->target)
    return index().choose(demand);
  auto found =
      policy::choose_place(only(index().cluster(), *x.moving->target), demand);
  if (std::holds_alternative<policy::place>(found))
    return found;
  // Full, or gone meanwhile: anywhere is better than nowhere.
  x.moving->target.reset();
  return index().choose(demand);
}

void manager_core::finish_movement(session_record& x,
                                   const std::string& failure) {
  if (!x.moving)
    return;
  auto done = std::move(*x.moving);
  x.moving.reset();
  if (!failure.empty() && done.target)
    send_to_node(done.target->node,
                 control::prepare_worker{x.id, x.vgpu, {}, 0});
  if (!failure.empty() && (done.idle || done.for_whom || !done.why.empty()))
    reclaim_refused(x);
  if (done.for_whom || done.idle)
    due(now_); // another one may leave
  if (!failure.empty() && !done.taken)
    emit("move-failed",
         name(x) + " stays on " + name(done.from) + ": " + failure +
             (done.why.empty() ? "" : " (it was to go, as " + done.why + ")"),
         about_session(x));
  if (done.request == 0)
    return;
  if (failure.empty())
    answer(done.peer, done.request, control::done{});
  else
    answer(
        done.peer, done.request,
        control::refusal{CUDA_ERROR_NOT_READY, name(x) + ": " + failure, {}});
}

/// Its worker, or the one that was to take its state, is lost.
void manager_core::movement_met_loss(session_record& x,
                                     const std::string& reason) {
  if (!x.moving)
    return;
  if (!x.moving->taken)
    return finish_movement(x, "its worker was lost: " + reason);
  // Back to where it came from, before it looks elsewhere.
  if (x.moving->met.empty())
    x.moving->met = reason;
  x.moving->target.reset();
  if (x.moving->what == session_movement::kind::migrate)
    x.where = x.moving->from;
}

void manager_core::look_at_movements() {
  for (auto& [id, x] : sessions_) {
    if (!x.moving || x.moving->taken || now_ < x.moving->until)
      continue;
    if (x.moving->prepares)
      ask_to_pause(x);
    else
      finish_movement(x, "its client does not answer");
  }
}

} // namespace vgpu
