#include "actors/manager/sessions/session_adoption.hpp"

#include "actors/manager/cluster/key_rights.hpp"
#include "actors/manager/sessions/swap_records.hpp"

#include <algorithm>

namespace vgpu {

session_adoption::session_adoption(
    const manager_options& options, manager_clock& clock, cluster_state& state,
    outbox& out, capacity_index& capacity, term_numbers& numbers,
    const tenant_registry& tenants, session_placement& placement,
    movement& moves, session_lifecycle& lifecycle)
    : options_(options), clock_(clock), state_(state), out_(out),
      capacity_(capacity), numbers_(numbers), tenants_(tenants),
      placement_(placement), moves_(moves), lifecycle_(lifecycle) {}

void session_adoption::handle(const std::string& peer,
                              const control::envelope& from,
                              const control::adopt& x) {
  if (!x.session || !x.epoch)
    return out_.refuse(peer, from,
                       {fault_kind::usage, "adopt names no session"});
  if (!term_numbers::is_plausible(x.session, x.vgpu, x.epoch))
    return out_.refuse(
        peer, from,
        {fault_kind::usage, "adopt names numbers that no manager gives"});
  auto* session = find_or_add(peer, from, x);
  if (session == nullptr)
    return;
  lifecycle_.bind_client(*session, peer);
  auto same_client = session->client == from.from;
  session->client = from.from;
  session->client_key = proven_key(from);
  if (!same_client || session->lease_key.empty())
    session->lease_key = session->client_key;
  session->tenant = tenant_of(proven_tenant(from));
  session->request = from.request;
  auto has_state = x.suspended && x.epoch == session->epoch;
  if (has_state && !x.process_checkpointed)
    session->released_epoch = x.epoch;
  auto unheard = has_state && session->placed();
  if (unheard)
    suspended_unheard(*session, x);
  take_over_swap_times(*session, clock_.now(), x.turns);
  out_.emit(event_kind::session_adopted,
            from.from + " took the session up again", subject_of(*session));
  state_.save(*session);
  continue_session(*session, x, has_state, same_client);
  if (unheard)
    placement_.place_waiting();
}

/// Returns the session that a client adopts; null when it is refused.
session_record* session_adoption::find_or_add(const std::string& peer,
                                              const control::envelope& from,
                                              const control::adopt& x) {
  auto* found = state_.find(x.session);
  if (found == nullptr)
    return add_unknown(peer, from, x);
  if (auto good = check_claim(*found, from, x); !good) {
    out_.refuse(peer, from, good.why());
    return nullptr;
  }
  return found;
}

status session_adoption::check_claim(const session_record& x,
                                     const control::envelope& from,
                                     const control::adopt& claim) const {
  auto known = x.tokens.find(claim.epoch.value);
  auto foreign =
      !x.tenant.empty() && x.tenant != tenant_of(proven_tenant(from));
  if (foreign || known == x.tokens.end() || known->second == 0 ||
      known->second != claim.token)
    return fault{fault_kind::refused, "the token for session " +
                                          std::to_string(x.id.value) +
                                          " is not the lease's"};
  return {};
}

/// Continues the session, now that its client is connected.
void session_adoption::continue_session(session_record& x,
                                        const control::adopt& told,
                                        bool has_state, bool same_client) {
  admit_client(x);
  switch (x.stage) {
  case session_stage::running:
    placement_.give_lease(x);
    if (!has_state)
      moves_.take_up(x, told.epoch);
    return;
  case session_stage::suspended:
    if (x.held && !told.held) // the order to hold is lost
      moves_.tell_to_hold(x);
    else if (!x.held && !same_client)
      moves_.wake(x);
    return;
  case session_stage::waiting:
    if (x.preempted)
      placement_.place_waiting(); // in its turn
    else
      placement_.place(x);
    return;
  case session_stage::starting:
    return; // its lease follows with its worker
  }
}

void session_adoption::renew_key(const std::string& former,
                                 const std::string& next) {
  for (auto& [id, x] : state_.sessions) {
    if (x.client_key != former)
      continue;
    x.client_key = next;
    state_.save(x);
    admit_client(x);
  }
}

/// Tells the worker its client's key. The key with which the same client got
/// the lease stays good, because the client's connection has it. That of a
/// former client, whose user has logged in anew, does not.
void session_adoption::admit_client(const session_record& x) {
  if (x.client_key.empty() || !(x.placed() || x.checkpointed))
    return;
  control::resize_session out;
  out.session = x.id;
  out.epoch = x.epoch;
  out.share = 0;
  out.client_key = x.client_key;
  if (x.lease_key != x.client_key)
    out.former_key = x.lease_key;
  out_.to_node(x.where.node, std::move(out));
}

/// Handles a session whose client has its state and could not report it,
/// because there was no manager or no connection. Its worker has ended, or is
/// about to.
void session_adoption::suspended_unheard(session_record& x,
                                         const control::adopt& told) {
  if (x.moving && !x.moving->state_taken()) {
    control::paused how{.session = x.id, .epoch = x.epoch, .failure = {}};
    how.milliseconds = told.turns.left_in_ms;
    how.process_checkpointed = told.process_checkpointed;
    return moves_.state_taken(x, how);
  }
  // The order to bring its worker back was lost.
  if (x.moving && told.process_checkpointed)
    return out_.answer(x.client_peer, 0,
                       control::restore_process{x.id, x.epoch});
  state_.names.withdraw(logical_name(x.vgpu), x.epoch);
  x.stage = session_stage::suspended;
  capacity_.recount(x);
  x.checkpointed = told.process_checkpointed;
  x.held = told.held;
  x.preempted = told.turns.preempted;
  if (x.preempted)
    x.swapping.queued_at = clock_.now();
  x.pid = 0;
  x.load = {};
  x.waiting_because = x.held ? "until it is resumed" : "until its next call";
  moves_.finish(x, "");
}

// -- sessions without a record ------------------------------------------------

/// Returns a fault where the vGPU of an unknown session is another tenant's.
status session_adoption::check_vgpu(const control::adopt& x,
                                    const std::string& tenant) const {
  for (const auto& [id, other] : state_.sessions)
    if (other.vgpu == x.vgpu && tenant_of(other.tenant) != tenant)
      return fault{fault_kind::refused,
                   "session " + std::to_string(x.session.value) +
                       " does not have vGPU " + std::to_string(x.vgpu.value)};
  return {};
}

session_record session_adoption::record_of(const control::envelope& from,
                                           const control::adopt& x) const {
  session_record out;
  out.id = x.session;
  out.vgpu = x.vgpu;
  out.epoch = x.epoch;
  out.tokens[x.epoch.value] = x.token;
  out.spec = x.specification;
  out.program = x.program;
  out.client = from.from;
  out.tenant = tenant_of(proven_tenant(from));
  out.had_lease = true;
  out.adopted = out.swapping.from_former_manager = true;
  out.retry_at = clock_.now();
  out.reason = "adopted";
  // `vgpu set` may have changed it since its program asked for it.
  out.quota = out.largest_quota = x.quota;
  if (x.specification.memory != 0 && x.quota != 0)
    out.spec.memory = x.quota;
  return out;
}

/// Returns null when the client is refused.
session_record* session_adoption::add_unknown(const std::string& peer,
                                              const control::envelope& from,
                                              const control::adopt& x) {
  auto worker = state_.unclaimed.find(x.session);
  auto known = worker != state_.unclaimed.end();
  auto runs = known && worker->second.running.epoch == x.epoch &&
              worker->second.node == x.node;
  auto young = clock_.now() < clock_.started() + options_.restart_grace;
  // Without its worker or its state, only the journal can recover a session.
  if (!runs && !young && (!x.suspended || x.process_checkpointed) &&
      x.specification.protection == control::protection::none) {
    out_.refuse(peer, from,
                {fault_kind::missing,
                 "session " + std::to_string(x.session.value) +
                     " was closed, and it keeps no journal to replay"});
    return nullptr;
  }
  auto fresh = record_of(from, x);
  if (auto good = check_vgpu(x, fresh.tenant); !good) {
    out_.refuse(peer, from, good.why());
    return nullptr;
  }
  tenants_.lower_priority(fresh);
  // Nobody but its client says that an earlier manager had granted it.
  if (auto within = runs ? status{} : tenants_.admit(fresh); !within) {
    out_.refuse(peer, from, within.why());
    return nullptr;
  }
  numbers_.note_numbers(x.session, x.vgpu);
  if (known && worker->second.running.epoch > x.epoch) {
    // Its client never knew of that worker. The next epoch is above both.
    fresh.epoch = worker->second.running.epoch;
    lifecycle_.fence(worker->second.node, x.session, fresh.epoch,
                     "its client does not know its worker on " +
                         worker->second.node);
    state_.unclaimed.erase(worker);
  }
  auto& session = state_.add(std::move(fresh), clock_.now());
  set_first_stage(session, x, runs, young);
  return &session;
}

/// `runs` says that a node has its worker of that epoch, `young` that nodes may
/// still register.
void session_adoption::set_first_stage(session_record& x,
                                       const control::adopt& told, bool runs,
                                       bool young) {
  auto worker = state_.unclaimed.find(x.id);
  if (runs && !told.suspended) {
    lifecycle_.take_running(x, worker->second.node, worker->second.running);
    state_.unclaimed.erase(worker);
  } else if (told.suspended) {
    x.stage = session_stage::suspended;
    x.where.node = told.node;
    x.checkpointed = told.process_checkpointed;
    if (runs && told.process_checkpointed)
      placement_.note_checkpointed(x, worker->second.running);
    // Another worker, if there is one, has been released.
    state_.unclaimed.erase(x.id);
    x.held = told.held;
    x.waiting_because = x.held ? "until it is resumed" : "until its next call";
  } else if (young && !state_.alive(told.node)) {
    // Its node will be back, with the worker.
    x.stage = session_stage::starting;
    x.where.node = told.node;
    capacity_.recount(x);
    x.start_by = std::min(clock_.attended() + options_.node_grace,
                          clock_.started() + options_.restart_grace);
    clock_.due_attended(x.start_by);
  } else {
    x.displaced_at = clock_.now();
  }
}

} // namespace vgpu
