#include "actors/manager/sessions/movement.hpp"

#include "actors/link/printable.hpp"
#include "actors/manager/sessions/session_lookup.hpp"
#include "actors/manager/sessions/session_texts.hpp"
#include "actors/manager/sessions/swap_records.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vgpu {

namespace {

/// Limits the time for a client to have the memory copied, stop the worker and
/// take its state.
constexpr auto pause_within = std::chrono::minutes{21};
/// Limits the time for a worker to open its devices. After that the session
/// moves without it.
constexpr auto prepared_within = std::chrono::seconds{10};

using phase = session_movement::phase;

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

std::string until_when(const session_record& x, bool idle) {
  if (x.held)
    return "until it is resumed";
  if (x.preempted)
    return "it made room for others, until its next call and turn";
  return idle ? "idle, until its next call" : "until its next call";
}

event_kind kind_of_suspension(const session_record& x, bool idle) {
  if (x.preempted)
    return event_kind::session_preempted;
  return idle ? event_kind::session_reclaimed : event_kind::session_suspended;
}

std::string text_of_suspension(const session_record& x, std::uint64_t bytes) {
  auto state =
      x.checkpointed
          ? "; nobody could describe it, so its worker stays, and its driver "
            "has put the worker's " +
                mebibytes(bytes) + " of GPU memory on its host"
          : "; its state of " + mebibytes(bytes) + " is on its program's host";
  return text_of_vgpu(x) + " left " + text_of_place(x.where) + ", " +
         x.waiting_because + state;
}

/// Says how a movement ended whose session has a worker again.
struct outcome {
  bool migrated = false; // it was to go elsewhere
  bool back = false;     // it is where it was
  bool balanced = false; // the balancer ordered it
};

outcome outcome_of(const session_record& x) {
  outcome out;
  out.migrated = x.moving && x.moving->what == session_movement::kind::migrate;
  out.back = out.migrated && x.where == x.moving->from;
  out.balanced = out.migrated && !x.moving->why.empty();
  return out;
}

event_kind kind_of(const outcome& x) {
  if (x.back)
    return event_kind::move_failed;
  if (x.balanced)
    return event_kind::session_balanced;
  return x.migrated ? event_kind::session_migrated
                    : event_kind::session_resumed;
}

std::string text_of_outcome(const session_record& x, const outcome& what) {
  auto where = text_of_place(x.where);
  if (what.back)
    return text_of_vgpu(x) + " runs on " + where + " again: " +
           (x.moving->loss.empty() ? "nothing else would have it"
                                   : x.moving->loss);
  if (what.migrated)
    return text_of_vgpu(x) + " went from " + text_of_place(x.moving->from) +
           " to " + where + (what.balanced ? ": " + x.moving->why : "");
  return text_of_vgpu(x) + " runs on " + where + " again";
}

} // namespace

movement::movement(const manager_options& options, manager_clock& clock,
                   cluster_state& state, outbox& out, capacity_index& capacity,
                   session_placement& placement)
    : options_(options), clock_(clock), state_(state), out_(out),
      capacity_(capacity), placement_(placement) {}

// -- orders -------------------------------------------------------------------

status movement::may_move(const session_record& x) const {
  if (x.moving)
    return fault{fault_kind::not_ready,
                 text_of_vgpu(x) +
                     " is being moved already; wait for that to end"};
  if (x.stage != session_stage::running || x.client_peer.empty())
    return fault{
        fault_kind::not_ready,
        text_of_vgpu(x) + " is " + name_of(x.stage) +
            (x.client_peer.empty() ? ", and its client is not connected" : "") +
            "; only a running one with a client can be moved"};
  return {};
}

void movement::order(session_record& x, session_movement what) {
  what.from = x.where;
  x.moving = std::move(what);
  if (x.moving->target && prepare(x))
    return;
  ask_to_pause(x);
}

/// Has a worker started at the target, while the session still runs where it
/// is: opening a device may take longer than everything else.
bool movement::prepare(session_record& x) {
  const auto& there = *x.moving->target;
  // session_placement will start the worker with the same values.
  control::prepare_worker wanted{
      x.id, x.vgpu, there.pgpus,
      std::max(x.largest_quota, placement_.quota_of(x.spec, there))};
  if (wanted.pgpus.empty() || !out_.to_node(there.node, std::move(wanted)))
    return false;
  x.moving->at = phase::preparing;
  x.moving->until = clock_.now() + prepared_within;
  clock_.due(x.moving->until);
  return true;
}

void movement::worker_prepared(const std::string& node,
                               const control::worker_prepared& x) {
  auto* session = state_.find(x.session);
  if (session == nullptr || !session->moving ||
      session->moving->at != phase::preparing ||
      session->moving->target->node != node)
    return;
  if (x.failure.empty()) {
    session->moving->next = x.next;
    ask_to_pause(*session);
  } else
    finish(*session, "no worker can be started on " +
                         text_of_place(*session->moving->target) + ": " +
                         printable(x.failure));
}

void movement::ask_to_pause(session_record& x) {
  x.moving->at = phase::pausing;
  x.moving->until = clock_.now() + pause_within;
  clock_.due(x.moving->until);
  send_pause(x);
}

/// Sends the order to pause, again where it may have been lost.
void movement::send_pause(const session_record& x) {
  control::pause_session order{x.id, x.epoch, {}};
  if (auto& to = x.moving->target;
      to && state_.on_one_host(to->node, x.where.node)) {
    order.lend_to = to->pgpus;
    order.next = x.moving->next;
  }
  order.suspend = x.moving->what == session_movement::kind::suspend;
  order.hold = x.moving->hold;
  order.turn_over = static_cast<bool>(x.moving->for_whom);
  out_.answer(x.client_peer, 0, std::move(order));
}

void movement::tell_to_hold(const session_record& x) {
  if (x.client_peer.empty())
    return;
  control::pause_session order{x.id, x.epoch, {}};
  order.suspend = order.hold = true;
  out_.answer(x.client_peer, 0, std::move(order));
}

// -- the state is taken -------------------------------------------------------

void movement::handle(const std::string& peer, const control::envelope& from,
                      const control::paused& x) {
  auto* session = owned_session(state_, out_, peer, from, x.session);
  if (session == nullptr || session->epoch != x.epoch)
    return;
  if (x.failure.empty())
    state_taken(*session, x);
  else if (session->stage == session_stage::running && session->moving &&
           !session->moving->state_taken())
    finish(*session, printable(x.failure));
}

/// Takes the state of a client that released its worker, even if no command
/// waits any more: nothing is left where the session was.
void movement::state_taken(session_record& x, const control::paused& how) {
  if (!how.process_checkpointed)
    x.released_epoch = x.epoch;
  if (!x.placed())
    return;
  x.checkpointed = how.process_checkpointed;
  if (!how.process_checkpointed) {
    state_.names.withdraw(logical_name(x.vgpu), x.epoch);
    x.pid = 0;
  }
  x.state_bytes = how.bytes;
  x.load = {};
  if (x.moving && x.moving->what == session_movement::kind::suspend)
    return suspended(x, how);
  if (x.moving)
    x.moving->at = phase::restoring;
  resume(x, "migrated");
}

void movement::suspended(session_record& x, const control::paused& how) {
  x.stage = session_stage::suspended;
  x.swapping.from_former_manager = false;
  capacity_.recount(x);
  auto idle = x.moving->idle;
  if (x.moving->for_whom)
    note_swapped_out(x, clock_.now(), how.milliseconds);
  x.held = x.moving->hold;
  x.refusals = 0;
  x.waiting_because = until_when(x, idle);
  state_.save(x);
  auto what = subject_of(x);
  what.bytes = how.bytes;
  what.milliseconds = how.milliseconds;
  out_.emit(kind_of_suspension(x, idle), text_of_suspension(x, how.bytes),
            std::move(what));
  finish(x, "");
  placement_.place_waiting();
}

// -- the state is restored ----------------------------------------------------

void movement::handle(const std::string& peer, const control::envelope& from,
                      const control::wake_session& x) {
  if (auto* session = owned_session(state_, out_, peer, from, x.session))
    wake(*session);
}

void movement::wake(session_record& x) {
  if (x.stage == session_stage::suspended && !x.held && !x.moving)
    resume(x, "called");
}

void movement::resume(session_record& x, const std::string& reason) {
  x.stage = session_stage::waiting;
  capacity_.recount(x);
  x.held = false;
  x.waiting_because.clear();
  x.reason = reason;
  x.displaced_at = clock_.now();
  x.retry_at = clock_.now();
  state_.save(x);
  // In its turn, because others may have waited for longer.
  if (x.preempted)
    placement_.place_waiting();
  else
    placement_.place(x);
}

void movement::handle(const std::string& peer, const control::envelope& from,
                      const control::restored& x) {
  auto* session = owned_session(state_, out_, peer, from, x.session);
  if (session == nullptr || session->epoch != x.epoch)
    return;
  note_swapped_in(*session, clock_.now(), x.milliseconds);
  restored(*session, x.bytes, x.milliseconds);
}

void movement::restored(session_record& x, std::uint64_t bytes,
                        double milliseconds) {
  x.state_bytes = 0;
  // It recovered from its journal after a failure, which others report.
  if (bytes == 0 && !x.moving)
    return;
  auto how = outcome_of(x);
  auto text = text_of_outcome(x, how);
  auto what = subject_of(x);
  what.bytes = bytes;
  what.milliseconds = milliseconds;
  if (how.migrated && !how.back) {
    x.refusals = 0;
    // A session that was moved off a drained node may move back when the drain
    // ends.
    if (how.balanced || x.moving->request != 0)
      x.moved_at = clock_.now();
  }
  out_.emit(kind_of(how), text, std::move(what));
  finish(x, how.back ? text : std::string{});
}

void movement::take_up(session_record& x, vgpu::epoch served) {
  if (!x.moving || served != x.epoch)
    return;
  if (x.moving->state_taken())
    restored(x, x.state_bytes, 0);
  else if (x.moving->at == phase::pausing)
    send_pause(x);
}

// -- ends ---------------------------------------------------------------------

void movement::finish(session_record& x, const std::string& failure) {
  if (!x.moving)
    return;
  auto done = std::move(*x.moving);
  x.moving.reset();
  if (!failure.empty() && done.target)
    out_.to_node(done.target->node,
                 control::prepare_worker{x.id, x.vgpu, {}, 0});
  if (!failure.empty() && (done.idle || done.for_whom || !done.why.empty()))
    // The attempt must not be repeated at once.
    x.rests_until =
        policy::rest_after(++x.refusals, clock_.now(), options_.reclaim);
  if (done.for_whom || done.idle)
    clock_.due(clock_.now()); // another one may leave
  publish_outcome(x, done, failure);
}

void movement::publish_outcome(const session_record& x,
                               const session_movement& done,
                               const std::string& failure) {
  if (!failure.empty() && !done.state_taken())
    out_.emit(
        event_kind::move_failed,
        text_of_vgpu(x) + " stays on " + text_of_place(done.from) + ": " +
            failure +
            (done.why.empty() ? "" : " (it was to go, as " + done.why + ")"),
        subject_of(x));
  if (done.request == 0)
    return;
  if (failure.empty())
    out_.answer(done.peer, done.request, control::done{});
  else
    out_.answer(done.peer, done.request,
                control::refusal{CUDA_ERROR_NOT_READY,
                                 text_of_vgpu(x) + ": " + failure,
                                 {}});
}

void movement::note_loss(session_record& x, const std::string& reason) {
  if (!x.moving)
    return;
  if (!x.moving->state_taken())
    return finish(x, "its worker was lost: " + reason);
  // It goes back to where it came from before other places are considered.
  if (x.moving->loss.empty())
    x.moving->loss = reason;
  x.moving->target.reset();
  if (x.moving->what == session_movement::kind::migrate)
    x.where = x.moving->from;
}

void movement::on_tick() {
  for (auto& [id, x] : state_.sessions) {
    if (!x.moving || x.moving->state_taken() || clock_.now() < x.moving->until)
      continue;
    if (x.moving->at == phase::preparing)
      ask_to_pause(x);
    else
      finish(x, "its client does not answer");
  }
}

void movement::ask_for_ticks(const session_record& x) const {
  if (x.moving && !x.moving->state_taken())
    clock_.due(x.moving->until);
}

} // namespace vgpu
