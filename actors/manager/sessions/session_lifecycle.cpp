#include "actors/manager/sessions/session_lifecycle.hpp"

#include "actors/link/printable.hpp"
#include "actors/manager/cluster/key_rights.hpp"
#include "actors/manager/sessions/session_lookup.hpp"
#include "actors/manager/sessions/swap_records.hpp"
#include "policies/placement/admission.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <variant>

namespace vgpu {

namespace {

constexpr std::size_t failing_kept = 4;

} // namespace

session_lifecycle::session_lifecycle(const manager_options& options,
                                     manager_clock& clock, cluster_state& state,
                                     outbox& out, capacity_index& capacity,
                                     accounts& books, term_numbers& numbers,
                                     const tenant_registry& tenants,
                                     session_placement& placement,
                                     movement& moves)
    : options_(options), clock_(clock), state_(state), out_(out),
      capacity_(capacity), accounts_(books), numbers_(numbers),
      tenants_(tenants), placement_(placement), moves_(moves) {}

void session_lifecycle::restore() {
  if (state_.kept == nullptr)
    return;
  auto now = clock_.now();
  std::vector<session_id> unserved;
  for (const auto& [id, saved] : state_.kept->state().sessions) {
    // Its client has no lease, and asks anew.
    if (saved.stage == session_stage::waiting && !saved.had_lease) {
      unserved.push_back(id);
      continue;
    }
    auto& x = state_.add(saved, now);
    x.swapping.from_former_manager = true;
    x.orphan_until = clock_.attended() + options_.restart_grace;
    x.retry_at = now;
    if (x.stage == session_stage::waiting || x.stage == session_stage::starting)
      x.displaced_at = now;
    x.start_by = clock_.attended() + options_.restart_grace;
    clock_.due_attended(*x.orphan_until);
    if (!x.placed() || state_.nodes.contains(x.where.node))
      continue;
    auto& node = state_.nodes[x.where.node];
    node.info.name = x.where.node;
    node.expected_until = clock_.attended() + options_.node_grace;
    clock_.due_attended(node.expected_until);
  }
  for (auto id : unserved) {
    accounts_.close_forgotten(id);
    state_.kept->forget(id);
  }
}

// -- messages of clients ------------------------------------------------------

status session_lifecycle::admit(session_record& x) {
  if (state_.sessions.size() >= most_sessions)
    return fault{fault_kind::exhausted, "the cluster has " +
                                            std::to_string(most_sessions) +
                                            " sessions, and takes no more"};
  return policy::admit_within(capacity_.extent(), state_.demand_of(x));
}

void session_lifecycle::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::acquire& x) {
  session_record fresh;
  fresh.spec = x.specification;
  fresh.program = x.program;
  fresh.tenant = tenant_of(proven_tenant(from));
  tenants_.lower_priority(fresh);
  auto within = tenants_.admit(fresh);
  auto admitted = within ? admit(fresh) : within;
  if (within && !admitted && numbers_.nodes_may_come() &&
      early_requests_.size() < most_sessions) {
    auto& early = early_requests_.emplace_back(peer, from).second;
    std::get<control::acquire>(early.body).specification.priority =
        fresh.spec.priority;
    return clock_.due(clock_.started() + options_.node_grace);
  }
  if (admitted)
    admitted = numbers_.take_numbers(fresh);
  if (!admitted) {
    out_.emit(event_kind::refused,
              printable(x.program.name) +
                  (within ? " asked for " : " was refused: ") +
                  admitted.why().what,
              {.tenant = fresh.tenant});
    return out_.refuse(peer, from, admitted.why());
  }
  fresh.client = from.from;
  fresh.client_peer = peer;
  fresh.client_key = proven_key(from);
  fresh.request = from.request;
  fresh.retry_at = fresh.displaced_at = clock_.now();
  // It keeps its age among the waiting sessions, because it may have asked a
  // former manager.
  auto asked = clock_.now() - std::chrono::milliseconds{x.waited_ms};
  if (fresh.spec.wait_ms != control::wait_for_ever) {
    fresh.wait_until = asked + std::chrono::milliseconds{fresh.spec.wait_ms};
    if (x.waited_ms != 0) // nodes may still register
      fresh.wait_until =
          std::max(*fresh.wait_until, clock_.started() + options_.node_grace);
  }
  state_.add(std::move(fresh), asked);
  placement_.place_waiting();
}

void session_lifecycle::retry_early_requests() {
  auto early = std::exchange(early_requests_, {});
  // In the order in which they would wait.
  std::ranges::stable_sort(early, std::ranges::greater{}, [](const auto& x) {
    const auto& asked = std::get<control::acquire>(x.second.body);
    return std::pair{asked.specification.priority, asked.waited_ms};
  });
  for (auto& [peer, what] : early)
    handle(peer, what, std::get<control::acquire>(what.body));
}

void session_lifecycle::drop_early_requests(const std::string& peer) {
  std::erase_if(early_requests_,
                [&](const auto& x) { return x.first == peer; });
}

void session_lifecycle::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::suspect& x) {
  auto* session = owned_session(state_, out_, peer, from, x.session);
  if (session == nullptr)
    return;
  if (from.request != 0)
    out_.answer(peer, from.request, control::done{});
  if (session->stage != session_stage::running)
    return; // a lease is on its way
  if (x.epoch != session->epoch)
    return placement_.give_lease(*session);
  out_.emit(event_kind::session_suspect,
            "its worker does not answer: " + printable(x.reason),
            subject_of(*session));
  displace(*session, "suspect: " + printable(x.reason), true);
}

void session_lifecycle::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::close_session& x) {
  if (owned_session(state_, out_, peer, from, x.session) == nullptr)
    return;
  if (from.request != 0)
    out_.answer(peer, from.request, control::done{});
  end(x.session,
      x.reason.empty() ? "closed by its client" : printable(x.reason));
}

// -- clients come and go ------------------------------------------------------

void session_lifecycle::bind_client(session_record& x,
                                    const std::string& peer) {
  x.client_peer = peer;
  x.orphan_until.reset();
  if (x.exit_explained_by)
    await_explanation(x);
}

void session_lifecycle::client_gone(const std::string& peer) {
  std::vector<session_id> without_lease;
  for (auto& [id, x] : state_.sessions) {
    if (x.client_peer != peer)
      continue;
    x.client_peer.clear();
    if (!x.had_lease) {
      without_lease.push_back(id);
      continue;
    }
    x.orphan_until = clock_.attended() + options_.client_grace;
    clock_.due_attended(*x.orphan_until);
  }
  // Nobody can claim these. Where their client comes back, it asks anew.
  for (auto id : without_lease)
    end(id, "its client is gone");
}

void session_lifecycle::end_revoked() {
  if (!options_.permitted)
    return;
  std::vector<session_id> revoked;
  for (const auto& [id, x] : state_.sessions)
    if (!x.client_key.empty() && !options_.permitted->find(x.client_key))
      revoked.push_back(id);
  for (auto id : revoked)
    end(id, "the key of its client was revoked");
}

/// Ends what the client asks for anew. A name alone proves nothing, so sessions
/// with a lease wait until somebody adopts them with their token.
void session_lifecycle::client_back(const std::string& name) {
  std::vector<session_id> asked_anew;
  for (auto& [id, x] : state_.sessions)
    if (x.client == name && x.client_peer.empty() && !x.had_lease)
      asked_anew.push_back(id);
  for (auto id : asked_anew)
    end(id, "its client asks for it anew");
}

// -- workers come and go ------------------------------------------------------

void session_lifecycle::take_running(session_record& x, const std::string& node,
                                     const control::running_session& running) {
  x.stage = session_stage::running;
  note_resident(x, clock_.now());
  if (std::exchange(x.adopted, false) && running.share != 0) {
    x.spec.share = running.share;
    x.spec.limit = running.limit;
    x.spec.priority = running.priority;
  }
  x.epoch = running.epoch;
  x.where = {node, running.pgpus};
  capacity_.recount(x);
  x.worker = running.worker;
  x.pid = running.pid;
  x.load = {};
  x.waiting_because.clear();
  state_.names.publish(logical_name(x.vgpu), {x.worker.endpoint, x.epoch});
  state_.save(x);
}

void session_lifecycle::displace(session_record& x, const std::string& reason,
                                 bool failed) {
  out_.to_node(x.where.node, control::stop_worker{x.id, x.epoch, reason});
  state_.names.withdraw(logical_name(x.vgpu), x.epoch);
  x.stage = session_stage::waiting;
  capacity_.recount(x);
  x.reason = x.had_lease ? reason : "first";
  x.displaced_at =
      x.displaced_at == time_point{} ? clock_.now() : x.displaced_at;
  x.retry_at = clock_.now();
  x.pid = 0;
  if (failed) {
    auto next =
        policy::after_failure(x.history, clock_.now(), options_.restart);
    x.history = next.history;
    x.retry_at = clock_.now() + next.delay;
    if (next.elsewhere) {
      x.failing.push_back(x.where);
      if (x.failing.size() > failing_kept)
        x.failing.erase(x.failing.begin());
    }
    auto too_often =
        !x.had_lease && x.history.in_a_row >= options_.first_attempts;
    if (next.give_up || too_often)
      return give_up(x, reason);
  }
  moves_.note_loss(x, reason);
  state_.save(x);
  if (x.retry_at > clock_.now())
    clock_.due(x.retry_at);
  placement_.place(x);
}

void session_lifecycle::await_explanation(session_record& x) {
  x.exit_explained_by = clock_.now() + options_.client_grace;
  clock_.due(*x.exit_explained_by);
}

void session_lifecycle::fence(const std::string& node, session_id session,
                              vgpu::epoch stale, const std::string& text) {
  out_.to_node(node, control::stop_worker{session, stale, "fenced"});
  out_.emit(event_kind::fenced, text,
            {.node = node, .session = session, .vgpu = {}, .epoch = stale});
}

// -- ends ---------------------------------------------------------------------

void session_lifecycle::give_up(session_record& x, const std::string& why) {
  moves_.finish(x, why);
  auto text = "given up after " + std::to_string(x.history.in_a_row) +
              " failures in a row: " + why;
  if (!x.client_peer.empty())
    out_.answer(x.client_peer, x.request,
                control::refusal{CUDA_ERROR_DEVICE_UNAVAILABLE,
                                 "session " + std::to_string(x.id.value) +
                                     " is " + text + "; see the node's log",
                                 x.id});
  out_.emit(event_kind::session_failed, text, subject_of(x));
  // It is not ended here, because callers iterate over the sessions.
  x.client_peer.clear();
  x.orphan_until = clock_.attended();
  clock_.due(clock_.now());
}

void session_lifecycle::end(session_id id, const std::string& why) {
  if (state_.find(id) == nullptr)
    return;
  auto x = state_.remove(id);
  capacity_.strike_out(x);
  state_.names.withdraw(logical_name(x.vgpu), x.epoch);
  moves_.finish(x, "its program ended");
  if (x.placed() || x.checkpointed)
    out_.to_node(x.where.node, control::stop_worker{id, x.epoch, why});
  accounts_.close(id);
  if (state_.kept != nullptr)
    state_.kept->forget(id);
  out_.emit(event_kind::session_closed, why, subject_of(x));
  placement_.place_waiting();
}

// -- time ---------------------------------------------------------------------

void session_lifecycle::end_overdue() {
  std::vector<session_id> closing;
  std::vector<session_id> late;
  for (const auto& [id, x] : state_.sessions) {
    if (x.orphan_until && clock_.attended() >= *x.orphan_until)
      closing.push_back(id);
    else if (x.stage == session_stage::starting &&
             clock_.attended() >= x.start_by)
      late.push_back(id);
  }
  for (auto id : closing)
    end(id, "its client is gone");
  for (auto id : late)
    if (auto* x = state_.find(id))
      displace(*x, "the worker did not start in time", true);
  std::erase_if(state_.unclaimed, [&](const auto& entry) {
    const auto& [id, x] = entry;
    if (clock_.attended() < x.until)
      return false;
    out_.to_node(x.node, control::stop_worker{id, x.running.epoch,
                                              "nobody claims this session"});
    return true;
  });
}

void session_lifecycle::displace_unexplained() {
  for (auto& [id, x] : state_.sessions) {
    if (!x.exit_explained_by || x.client_peer.empty() ||
        clock_.now() < *x.exit_explained_by)
      continue;
    x.exit_explained_by.reset();
    if (x.stage == session_stage::running)
      displace(x, "its worker has ended", false);
  }
}

void session_lifecycle::ask_for_ticks() const {
  for (const auto& [id, x] : state_.sessions) {
    if (x.orphan_until)
      clock_.due_attended(*x.orphan_until);
    if (x.exit_explained_by && !x.client_peer.empty())
      clock_.due(*x.exit_explained_by);
    placement_.ask_for_ticks(x);
    moves_.ask_for_ticks(x);
  }
  for (const auto& [id, x] : state_.unclaimed)
    clock_.due_attended(x.until);
  if (!early_requests_.empty())
    clock_.due(clock_.started() + options_.node_grace);
}

} // namespace vgpu
