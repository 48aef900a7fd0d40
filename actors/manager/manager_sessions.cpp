// The life of sessions: placement, leases, and what happens when a place is
// lost.
#include "actors/link/printable.hpp"
#include "actors/manager/manager_core.hpp"
#include "policies/placement/admission.hpp"
#include "policies/placement/constraints.hpp"
#include "policies/placement/placement.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace vgpu {

namespace {

constexpr std::size_t most_sessions = 65'536;
constexpr std::size_t tokens_kept = 8;
constexpr std::size_t failing_kept = 4;

double milliseconds(policy::duration x) {
  return std::chrono::duration<double, std::milli>{x}.count();
}

std::string vgpu_name(const session_record& x) {
  return "vgpu/" + std::to_string(x.vgpu.value);
}

} // namespace

session_record& manager_core::add_session(session_record x) {
  if (x.spec.group != 0)
    groups_.emplace(x.spec.group, x.id);
  x.queued_at = now_;
  return sessions_[x.id] = std::move(x);
}

policy::demand manager_core::demand_of(const session_record& x) const {
  auto out = policy::demand_of(x.spec, x.program.host);
  out.previous = x.where;
  out.failing = x.failing;
  // Of one host: a group is processes that were begun together.
  if (x.spec.group != 0)
    for (auto i = groups_.lower_bound({x.spec.group, {}});
         i != groups_.end() && i->first == x.spec.group; ++i)
      if (const auto& other = sessions_.at(i->second);
          other.id != x.id && other.placed() &&
          other.program.host == x.program.host)
        out.affinity.push_back(other.where);
  if (!x.spec.beside && !x.spec.apart)
    return out;
  for (const auto& [id, other] : sessions_) {
    if (other.stage == session_stage::waiting || id == x.id)
      continue;
    if (x.spec.beside && other.vgpu == x.spec.beside)
      out.beside.push_back(other.where);
    if (x.spec.apart && other.vgpu == x.spec.apart)
      out.apart.push_back(other.where);
  }
  return out;
}

manager_core::about manager_core::about_session(const session_record& x) const {
  return {x.where.node, x.id, x.vgpu, x.epoch};
}

void manager_core::save(const session_record& x) {
  if (store_)
    store_->save(x);
}

// -- what clients say ---------------------------------------------------------

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::acquire& x) {
  session_record fresh;
  fresh.spec = x.specification;
  fresh.program = x.program;
  auto admitted =
      sessions_.size() < most_sessions
          ? policy::admit_within(extent(), demand_of(fresh))
          : status{fault{CUDA_ERROR_OUT_OF_MEMORY,
                         "the cluster has " + std::to_string(most_sessions) +
                             " sessions, and takes no more"}};
  if (!admitted && nodes_may_come() && held_.size() < most_sessions) {
    held_.emplace_back(peer, from);
    return due(started_ + options_.node_grace);
  }
  if (admitted)
    admitted = take_numbers(fresh);
  if (!admitted) {
    emit("refused",
         printable(x.program.name) + " asked for " + admitted.why().what, {});
    return refuse(peer, from, admitted.why());
  }
  fresh.client = from.from;
  fresh.client_peer = peer;
  fresh.request = from.request;
  fresh.retry_at = fresh.displaced_at = now_;
  // In its place among those that wait: it may have asked a former manager.
  auto asked = now_ - std::chrono::milliseconds{x.waited_ms};
  if (fresh.spec.wait_ms != control::wait_for_ever) {
    fresh.wait_until = asked + std::chrono::milliseconds{fresh.spec.wait_ms};
    if (x.waited_ms != 0) // nodes may be on their way
      fresh.wait_until =
          std::max(*fresh.wait_until, started_ + options_.node_grace);
  }
  add_session(std::move(fresh)).queued_at = asked;
  retry_waiting();
}

/// The session, if this client may speak for it; otherwise the client is
/// refused.
session_record* manager_core::owned(const std::string& peer,
                                    const control::envelope& from,
                                    session_id id) {
  auto i = sessions_.find(id);
  if (i == sessions_.end()) {
    refuse(peer, from,
           {CUDA_ERROR_INVALID_HANDLE,
            "session " + std::to_string(id.value) + " is not known"});
    return nullptr;
  }
  if (i->second.client_peer != peer) {
    refuse(peer, from,
           {CUDA_ERROR_NOT_PERMITTED,
            "session " + std::to_string(id.value) +
                " is not this connection's: adopt it first"});
    return nullptr;
  }
  return &i->second;
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::suspect& x) {
  auto* session = owned(peer, from, x.session);
  if (session == nullptr)
    return;
  if (from.request != 0)
    answer(peer, from.request, control::done{});
  if (session->stage != session_stage::running)
    return; // a lease is on its way
  if (x.epoch != session->epoch)
    return give_lease(*session);
  emit("session-suspect", "its worker does not answer: " + printable(x.reason),
       about_session(*session));
  displace(*session, "suspect: " + printable(x.reason), true);
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::close_session& x) {
  if (owned(peer, from, x.session) == nullptr)
    return;
  if (from.request != 0)
    answer(peer, from.request, control::done{});
  end_session(x.session,
              x.reason.empty() ? "closed by its client" : printable(x.reason));
}

// -- adoption -----------------------------------------------------------------

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::adopt& x) {
  if (!x.session || !x.epoch)
    return refuse(peer, from,
                  {CUDA_ERROR_INVALID_VALUE, "adopt names no session"});
  auto i = sessions_.find(x.session);
  auto* session = i == sessions_.end() ? nullptr : &i->second;
  if (session == nullptr) {
    session = adopt_unknown(peer, from, x);
    if (session == nullptr)
      return;
  } else if (auto good = check_token(*session, x); !good) {
    return refuse(peer, from, good.why());
  }
  bind_client(*session, peer);
  auto same_client = session->client == from.from;
  session->client = from.from;
  session->request = from.request;
  if (x.epoch > session->epoch ||
      (x.epoch == session->epoch && session->token() == 0)) {
    // This manager's store is older than the client's lease, or knows of it by
    // the word of its node alone.
    session->epoch = x.epoch;
    session->tokens[x.epoch.value] = x.token;
  }
  auto has_state = x.suspended && x.epoch == session->epoch;
  if (has_state && !x.aside)
    session->gave_way = x.epoch;
  auto unheard = has_state && session->placed();
  if (unheard)
    suspended_unheard(*session, x);
  hear_of_turns(*session, x.turns);
  emit("session-adopted", from.from + " took the session up again",
       about_session(*session));
  save(*session);
  if (session->stage == session_stage::running) {
    give_lease(*session);
    if (!has_state)
      take_movement_up(*session, x.epoch);
  } else if (session->stage == session_stage::suspended && session->held) {
    if (!x.held) // what it was told is lost
      tell_to_hold(*session);
  } else if (session->stage == session_stage::suspended && !same_client)
    wake(*session);
  else if (session->stage == session_stage::waiting && session->preempted)
    retry_waiting(); // in its turn
  else if (session->stage == session_stage::waiting)
    place(*session);
  if (unheard)
    retry_waiting();
}

/// Its client has its state, and told nobody, as there was no manager then, or
/// no connection: its worker has ended, or is about to.
void manager_core::suspended_unheard(session_record& x,
                                     const control::adopt& told) {
  if (x.moving && !x.moving->taken) {
    control::paused how{.session = x.id, .epoch = x.epoch, .failure = {}};
    how.milliseconds = told.turns.left_in_ms;
    how.aside = told.aside;
    return gave_state(x, how);
  }
  // What was lost is the order to bring its worker back.
  if (x.moving && told.aside)
    return answer(x.client_peer, 0, control::bring_back{x.id, x.epoch});
  directory_.withdraw(vgpu_name(x), x.epoch);
  x.stage = session_stage::suspended;
  recount(x);
  x.aside = told.aside;
  x.held = told.held;
  x.preempted = told.turns.preempted;
  if (x.preempted)
    x.queued_at = now_;
  x.pid = 0;
  x.load = {};
  x.waiting_because = x.held ? "until it is resumed" : "until its next call";
  finish_movement(x, "");
}

status manager_core::check_token(const session_record& x,
                                 const control::adopt& claim) {
  auto known = x.tokens.find(claim.epoch.value);
  if (claim.epoch > x.epoch || (claim.epoch == x.epoch && x.token() == 0))
    return {};
  if (known == x.tokens.end() || known->second != claim.token)
    return fault{CUDA_ERROR_NOT_PERMITTED, "the token for session " +
                                               std::to_string(x.id.value) +
                                               " is not the lease's"};
  return {};
}

/// A session that this manager does not know, on the word of its client and,
/// where there is one, of its node; null when it is refused.
session_record* manager_core::adopt_unknown(const std::string& peer,
                                            const control::envelope& from,
                                            const control::adopt& x) {
  auto worker = unclaimed_.find(x.session);
  auto runs =
      worker != unclaimed_.end() && worker->second.running.epoch == x.epoch;
  auto young = now_ < started_ + options_.restart_grace;
  // Without its worker or its state, only the journal can bring a session back.
  if (!runs && !young && (!x.suspended || x.aside) &&
      x.specification.protection == control::protection::none) {
    refuse(peer, from,
           {CUDA_ERROR_INVALID_HANDLE,
            "session " + std::to_string(x.session.value) +
                " was closed, and it keeps no journal to replay"});
    return nullptr;
  }
  session_record fresh;
  fresh.id = x.session;
  fresh.vgpu = x.vgpu;
  fresh.epoch = x.epoch;
  fresh.tokens[x.epoch.value] = x.token;
  fresh.spec = x.specification;
  fresh.program = x.program;
  fresh.client = from.from;
  fresh.had_lease = true;
  fresh.adopted = fresh.from_before = true;
  fresh.retry_at = now_;
  fresh.reason = "adopted";
  // `vgpu set` may have changed it since its program asked for it.
  fresh.quota = fresh.largest_quota = x.quota;
  if (x.specification.memory != 0 && x.quota != 0)
    fresh.spec.memory = x.quota;
  note_numbers(x.session, x.vgpu);
  if (worker != unclaimed_.end() && worker->second.running.epoch > x.epoch) {
    // Its client was never told of that worker. What follows is above both.
    fresh.epoch = worker->second.running.epoch;
    fence(worker->second.node, x.session, fresh.epoch,
          "its client knows nothing of its worker on " + worker->second.node);
    unclaimed_.erase(worker);
  }
  auto& session = add_session(std::move(fresh));
  if (runs && !x.suspended) {
    take_running(session, worker->second.node, worker->second.running);
    unclaimed_.erase(worker);
  } else if (x.suspended) {
    session.stage = session_stage::suspended;
    session.where.node = x.node;
    session.aside = x.aside;
    if (runs && x.aside)
      take_aside(session, worker->second.running);
    // Another worker has been let go, if there is one yet.
    unclaimed_.erase(x.session);
    session.held = x.held;
    session.waiting_because =
        x.held ? "until it is resumed" : "until its next call";
  } else if (young && !alive(x.node)) {
    // Its node will be back, and bring the worker along.
    session.stage = session_stage::starting;
    session.where.node = x.node;
    recount(session);
    session.start_by =
        std::min(now_ + options_.node_grace, started_ + options_.restart_grace);
    due(session.start_by);
  } else {
    session.displaced_at = now_;
  }
  return &session;
}

void manager_core::take_running(session_record& x, const std::string& node,
                                const control::running_session& running) {
  x.stage = session_stage::running;
  begin_turn(x);
  if (std::exchange(x.adopted, false) && running.share != 0) {
    x.spec.share = running.share;
    x.spec.limit = running.limit;
    x.spec.priority = running.priority;
  }
  x.epoch = running.epoch;
  x.where = {node, running.pgpus};
  recount(x);
  x.worker = running.worker;
  x.pid = running.pid;
  x.load = {};
  x.waiting_because.clear();
  directory_.publish(vgpu_name(x), {x.worker.endpoint, x.epoch});
  save(x);
}

void manager_core::bind_client(session_record& x, const std::string& peer) {
  x.client_peer = peer;
  x.orphan_until.reset();
  if (x.explained_by)
    due(*(x.explained_by = now_ + options_.client_grace));
}

void manager_core::client_gone(const std::string& peer) {
  for (auto& [id, x] : sessions_)
    if (x.client_peer == peer) {
      x.client_peer.clear();
      x.orphan_until = now_ + options_.client_grace;
      due(*x.orphan_until);
    }
}

/// A client of the same name connected again: what it left behind is its own.
/// What of it has ended meanwhile, it will not take up; and what was not served
/// yet it asks for anew.
void manager_core::client_back(const std::string& peer,
                               const std::string& name) {
  std::vector<session_id> asked_anew;
  for (auto& [id, x] : sessions_)
    if (x.client == name && x.client_peer.empty()) {
      if (!x.had_lease) {
        asked_anew.push_back(id);
        continue;
      }
      bind_client(x, peer);
      x.orphan_until = now_ + options_.client_grace;
      due(*x.orphan_until);
      if (x.stage == session_stage::running)
        give_lease(x);
      // Who made room has its turn when it is known since when it waits.
      else if (x.stage == session_stage::waiting &&
               !(x.from_before && x.preempted))
        place(x);
    }
  for (auto id : asked_anew)
    end_session(id, "its client asks for it anew");
}

// -- placement ----------------------------------------------------------------

/// Finds a waiting session a place, or notes why there is none.
void manager_core::place(session_record& x) {
  if (x.client_peer.empty() || now_ < x.retry_at)
    return;
  if (x.aside && !nodes_.contains(x.where.node) &&
      now_ >= started_ + options_.node_grace) {
    lost_aside(x, "its node did not come back");
    return;
  }
  auto found = choose_for(x);
  if (auto* none = std::get_if<policy::no_place>(&found))
    return wait_for_place(x, none->why);
  if (x.aside)
    return bring_back(x);
  start(x, std::get<policy::place>(std::move(found)));
}

/// Why it waits is always right in the status; it is told once.
void manager_core::wait_for_place(session_record& x, std::string why) {
  auto lacks = policy::why_waiting(index().cluster(), kept_, demand_of(x));
  if (!lacks.empty())
    why += ": " + lacks;
  if (x.wait_until && !x.had_lease && now_ >= *x.wait_until)
    return stop_waiting(x, why);
  if (x.wait_until && !x.had_lease)
    due(*x.wait_until);
  if (options_.swapping.promised > 1)
    due(now_); // somebody's turn may be over
  auto known = !std::exchange(x.waiting_because, why).empty();
  if (known)
    return;
  emit("session-waiting", "no place now: " + why, about_session(x));
  save(x);
  control::event told;
  told.kind = "session-waiting";
  told.session = x.id;
  told.vgpu = x.vgpu;
  told.text = std::move(why);
  answer(x.client_peer, x.request, std::move(told));
}

void manager_core::start(session_record& x, policy::place where) {
  x.stage = session_stage::starting;
  x.from_before = x.turn_told = false;
  x.explained_by.reset();
  x.where = std::move(where);
  recount(x);
  x.epoch = epoch_after(x.epoch);
  x.tokens[x.epoch.value] = options_.random();
  while (x.tokens.size() > tokens_kept)
    x.tokens.erase(x.tokens.begin());
  x.start_by = now_ + options_.start_within;
  due(x.start_by);
  x.quota = quota_of(x.spec, x.where);
  x.largest_quota = std::max(x.largest_quota, x.quota);
  open_account(x);
  // First the store, then the world: a manager that dies in between must not
  // give this epoch again.
  save(x);
  auto gave_way = x.moving && x.moving->taken && x.moving->met.empty();
  send_to_node(x.where.node,
               control::start_worker{
                   x.id, x.vgpu, x.epoch, x.token(), x.where.pgpus,
                   x.largest_quota, x.spec.protection, x.program.name,
                   x.spec.share, x.spec.limit, x.spec.priority, gave_way});
}

/// Bytes a device: what was asked for, or the share of the smallest pGPU, of
/// which others may have reserved some. A granule at least: no quota would be
/// no bound.
std::uint64_t manager_core::quota_of(const control::specification& spec,
                                     const policy::place& where) {
  auto node = nodes_.find(where.node);
  if (spec.memory != 0 || node == nodes_.end())
    return spec.memory;
  auto nth = static_cast<std::size_t>(std::distance(nodes_.begin(), node));
  auto memory = std::numeric_limits<std::uint64_t>::max();
  auto left = memory;
  for (const auto& pgpu : index().with_nothing_kept(nth).pgpus)
    if (std::ranges::count(where.pgpus, pgpu.ordinal) != 0) {
      memory = std::min(memory, pgpu.memory);
      left = std::min(left, pgpu.memory - std::min(pgpu.memory, pgpu.reserved));
    }
  auto by_share =
      static_cast<std::uint64_t>(static_cast<double>(memory) * spec.share);
  auto whole = std::min(by_share, left) / granule_bytes * granule_bytes;
  return std::min(std::max(whole, granule_bytes), memory);
}

void manager_core::give_lease(session_record& x) {
  if (x.client_peer.empty())
    return;
  if (x.quota == 0)
    x.quota = quota_of(x.spec, x.where);
  control::lease out;
  out.session = x.id;
  out.vgpu = x.vgpu;
  out.epoch = x.epoch;
  out.node = x.where.node;
  out.worker = x.worker;
  out.token = x.token();
  out.quota = x.quota;
  out.pgpus = x.where.pgpus;
  out.protection = x.spec.protection;
  out.reason = x.reason;
  if (auto node = nodes_.find(x.where.node); node != nodes_.end())
    for (auto ordinal : x.where.pgpus)
      for (const auto& pgpu : node->second.info.pgpus)
        if (pgpu.ordinal == ordinal)
          out.devices.push_back(pgpu.facts);
  answer(x.client_peer, std::exchange(x.request, 0), std::move(out));
  if (x.displaced_at == time_point{})
    return;
  auto what = about_session(x);
  what.milliseconds = milliseconds(now_ - x.displaced_at);
  auto text = "runs on " + x.where.node + " (" + x.reason + ")";
  auto first = !std::exchange(x.had_lease, true);
  x.displaced_at = {};
  save(x);
  if (first)
    emit("session-opened", printable(x.program.name) + " " + text, what);
  else
    emit("session-replaced", text, what);
}

/// Takes a session off its place and finds another. `failed` tells that the
/// worker is to blame, or the pGPU.
void manager_core::displace(session_record& x, const std::string& reason,
                            bool failed) {
  send_to_node(x.where.node, control::stop_worker{x.id, x.epoch, reason});
  directory_.withdraw(vgpu_name(x), x.epoch);
  x.stage = session_stage::waiting;
  recount(x);
  x.reason = x.had_lease ? reason : "first";
  x.displaced_at = x.displaced_at == time_point{} ? now_ : x.displaced_at;
  x.retry_at = now_;
  x.pid = 0;
  if (failed) {
    auto next = policy::after_failure(x.history, now_, options_.restart);
    x.history = next.history;
    x.retry_at = now_ + next.delay;
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
  movement_met_loss(x, reason);
  save(x);
  if (x.retry_at > now_)
    due(x.retry_at);
  place(x);
}

/// Workers that ended in order, whose clients are here, and neither closed
/// their sessions nor said that they have the states: what they said was lost.
void manager_core::look_unexplained() {
  for (auto& [id, x] : sessions_) {
    if (!x.explained_by || x.client_peer.empty() || now_ < *x.explained_by)
      continue;
    x.explained_by.reset();
    if (x.stage == session_stage::running)
      displace(x, "its worker has ended", false);
  }
}

void manager_core::give_up(session_record& x, const std::string& why) {
  finish_movement(x, why);
  auto text = "given up after " + std::to_string(x.history.in_a_row) +
              " failures in a row: " + why;
  if (!x.client_peer.empty())
    answer(x.client_peer, x.request,
           control::refusal{CUDA_ERROR_DEVICE_UNAVAILABLE,
                            "session " + std::to_string(x.id.value) + " is " +
                                text + "; see the node's log",
                            x.id});
  emit("session-failed", text, about_session(x));
  // Not here: callers walk over the sessions.
  x.client_peer.clear();
  x.orphan_until = now_;
  due(now_);
}

/// The place that it was to wait for did not come in time.
void manager_core::stop_waiting(session_record& x, const std::string& why) {
  auto text =
      x.spec.wait_ms == 0
          ? "there is no room now, and it was not to wait: " + why
          : "no place within " + std::to_string(x.spec.wait_ms) + " ms: " + why;
  if (!x.client_peer.empty())
    answer(x.client_peer, x.request,
           control::refusal{CUDA_ERROR_NO_DEVICE, text, x.id});
  emit("session-failed", text, about_session(x));
  x.client_peer.clear();
  x.orphan_until = now_;
  due(now_);
}

void manager_core::end_session(session_id id, const std::string& why) {
  auto i = sessions_.find(id);
  if (i == sessions_.end())
    return;
  auto x = std::move(i->second);
  sessions_.erase(i);
  strike_out(x);
  groups_.erase({x.spec.group, x.id});
  directory_.withdraw(vgpu_name(x), x.epoch);
  finish_movement(x, "its program ended");
  if (x.placed() || x.aside)
    send_to_node(x.where.node, control::stop_worker{id, x.epoch, why});
  usage_.close(id);
  save_usage(id);
  if (store_)
    store_->forget(id);
  emit("session-closed", why, about_session(x));
  retry_waiting();
}

/// Those that ran already first, then by priority and age. Whoever finds no
/// place has the pGPUs kept that it will get soonest: those behind it may take
/// what is left, and never make it wait longer.
void manager_core::retry_waiting() {
  for (auto next : queue()) {
    auto i = sessions_.find(next.id);
    if (i == sessions_.end())
      continue;
    auto& x = i->second;
    place(x);
    if (x.stage != session_stage::waiting || x.client_peer.empty() ||
        x.spec.memory == 0)
      continue;
    if (auto where = index().place_to_keep(demand_of(x))) {
      index().keep(*where);
      kept_.push_back(std::move(*where));
    }
  }
  if (!kept_.empty())
    index().let_go();
  kept_.clear();
}

} // namespace vgpu
