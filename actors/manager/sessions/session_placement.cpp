#include "actors/manager/sessions/session_placement.hpp"

#include "actors/link/printable.hpp"
#include "policies/placement/placement.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

namespace vgpu {

namespace {

constexpr std::size_t tokens_kept = 8;

double to_milliseconds(policy::duration x) {
  return std::chrono::duration<double, std::milli>{x}.count();
}

/// Returns whether the worker of the former epoch was released, and executes
/// nothing any more.
bool former_worker_released(const session_record& x) {
  return x.moving && x.moving->state_taken() && x.moving->loss.empty();
}

} // namespace

policy::cluster_view only_place(policy::cluster_view cluster,
                                const policy::place& wanted) {
  for (auto& node : cluster.nodes) {
    node.alive = node.alive && node.name == wanted.node;
    for (auto& pgpu : node.pgpus)
      pgpu.healthy =
          pgpu.healthy && (wanted.pgpus.empty() ||
                           std::ranges::count(wanted.pgpus, pgpu.ordinal) != 0);
  }
  return cluster;
}

session_placement::session_placement(const manager_options& options,
                                     manager_clock& clock, cluster_state& state,
                                     outbox& out, capacity_index& capacity,
                                     accounts& books,
                                     const term_numbers& numbers)
    : options_(options), clock_(clock), state_(state), out_(out),
      capacity_(capacity), accounts_(books), numbers_(numbers) {}

// -- choosing -----------------------------------------------------------------

void session_placement::place(session_record& x) {
  if (x.client_peer.empty() || clock_.now() < x.retry_at)
    return;
  if (x.checkpointed && !state_.nodes.contains(x.where.node) &&
      clock_.now() >= clock_.started() + options_.node_grace) {
    checkpointed_worker_lost(x, "its node did not come back");
    return;
  }
  auto found = choose(x);
  if (auto* none = std::get_if<policy::no_place>(&found))
    return wait_for_place(x, none->why);
  if (x.checkpointed)
    return restore_process(x);
  start(x, std::get<policy::place>(std::move(found)));
}

/// Returns a place for a session: the target of its migration, if there is one.
session_placement::choice session_placement::choose(session_record& x) {
  auto demand = state_.demand_of(x);
  // Its worker is there, even on a drained node.
  if (x.checkpointed) {
    demand.failing.clear();
    return policy::choose_place(only_place(state_.view(), x.where), demand);
  }
  if (x.moving && x.moving->state_taken() && x.moving->target)
    return choose_target(x, demand);
  return capacity_.index().choose(demand);
}

session_placement::choice
session_placement::choose_target(session_record& x,
                                 const policy::demand& demand) {
  auto found = policy::choose_place(
      only_place(capacity_.index().cluster(), *x.moving->target), demand);
  if (std::holds_alternative<policy::place>(found))
    return found;
  // The target is full or gone: any other place is better than none.
  x.moving->target.reset();
  return capacity_.index().choose(demand);
}

/// Keeps the present reason for the status; the client gets the first one only.
void session_placement::wait_for_place(session_record& x, std::string why) {
  auto lacks = policy::why_waiting(capacity_.index().cluster(), kept_,
                                   state_.demand_of(x));
  if (!lacks.empty())
    why += ": " + lacks;
  if (x.wait_until && !x.had_lease && clock_.now() >= *x.wait_until)
    return stop_waiting(x, why);
  if (x.wait_until && !x.had_lease)
    clock_.due(*x.wait_until);
  if (options_.swapping.promised > 1)
    clock_.due(clock_.now()); // a session may be due to be swapped out
  auto known = !std::exchange(x.waiting_because, why).empty();
  if (known)
    return;
  out_.emit(event_kind::session_waiting, "no place now: " + why, subject_of(x));
  state_.save(x);
  control::event told;
  told.kind = name_of(event_kind::session_waiting);
  told.session = x.id;
  told.vgpu = x.vgpu;
  told.text = std::move(why);
  out_.answer(x.client_peer, x.request, std::move(told));
}

/// Gives up a session for which no place came in time.
void session_placement::stop_waiting(session_record& x,
                                     const std::string& why) {
  auto text =
      x.spec.wait_ms == 0
          ? "there is no room now, and it was not to wait: " + why
          : "no place within " + std::to_string(x.spec.wait_ms) + " ms: " + why;
  if (!x.client_peer.empty())
    out_.answer(x.client_peer, x.request,
                control::refusal{CUDA_ERROR_NO_DEVICE, text, x.id});
  out_.emit(event_kind::session_failed, text, subject_of(x));
  // It is not ended here, because callers iterate over the sessions.
  x.client_peer.clear();
  x.orphan_until = clock_.attended();
  clock_.due(clock_.now());
}

// -- starting -----------------------------------------------------------------

void session_placement::start(session_record& x, policy::place where) {
  x.stage = session_stage::starting;
  x.swapping.from_former_manager = x.swapping.residence_known = false;
  x.exit_explained_by.reset();
  x.where = std::move(where);
  capacity_.recount(x);
  x.epoch = numbers_.epoch_after(x.epoch);
  x.tokens[x.epoch.value] = options_.random();
  while (x.tokens.size() > tokens_kept)
    x.tokens.erase(x.tokens.begin());
  x.start_by = clock_.attended() + options_.start_within;
  clock_.due_attended(x.start_by);
  x.quota = quota_of(x.spec, x.where);
  x.largest_quota = std::max(x.largest_quota, x.quota);
  x.lease_key = x.client_key;
  accounts_.open(x);
  // The store comes first: after a crash in between, this epoch must not be
  // given again.
  state_.save(x);
  out_.to_node(
      x.where.node,
      control::start_worker{x.id, x.vgpu, x.epoch, x.token(), x.where.pgpus,
                            x.largest_quota, x.spec.protection, x.program.name,
                            x.spec.share, x.spec.limit, x.spec.priority,
                            former_worker_released(x), x.lease_key});
}

/// Returns what was asked for, or the share of the smallest pGPU, of which
/// others may have reserved some. It is at least a granule, because no quota
/// would be no bound.
std::uint64_t session_placement::quota_of(const control::specification& spec,
                                          const policy::place& where) {
  auto node = state_.nodes.find(where.node);
  if (spec.memory != 0 || node == state_.nodes.end())
    return spec.memory;
  auto nth =
      static_cast<std::size_t>(std::distance(state_.nodes.begin(), node));
  auto memory = std::numeric_limits<std::uint64_t>::max();
  auto left = memory;
  for (const auto& pgpu : capacity_.index().with_nothing_kept(nth).pgpus)
    if (std::ranges::count(where.pgpus, pgpu.ordinal) != 0) {
      memory = std::min(memory, pgpu.memory);
      left = std::min(left, pgpu.memory - std::min(pgpu.memory, pgpu.reserved));
    }
  auto by_share =
      static_cast<std::uint64_t>(static_cast<double>(memory) * spec.share);
  auto whole = std::min(by_share, left) / granule_bytes * granule_bytes;
  return std::min(std::max(whole, granule_bytes), memory);
}

void session_placement::give_lease(session_record& x) {
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
  out.recovery = control::recovery_of(x.spec);
  out.client_key = x.lease_key;
  if (auto node = state_.nodes.find(x.where.node); node != state_.nodes.end())
    for (auto ordinal : x.where.pgpus)
      for (const auto& pgpu : node->second.info.pgpus)
        if (pgpu.ordinal == ordinal)
          out.devices.push_back(pgpu.facts);
  out_.answer(x.client_peer, std::exchange(x.request, 0), std::move(out));
  if (x.displaced_at == time_point{})
    return;
  auto what = subject_of(x);
  what.milliseconds = to_milliseconds(clock_.now() - x.displaced_at);
  auto text = "runs on " + x.where.node + " (" + x.reason + ")";
  auto first = !std::exchange(x.had_lease, true);
  x.displaced_at = {};
  state_.save(x);
  if (first)
    out_.emit(event_kind::session_opened,
              printable(x.program.name) + " " + text, what);
  else
    out_.emit(event_kind::session_replaced, text, what);
}

// -- checkpointed workers -----------------------------------------------------

/// Continues the checkpointed worker, for which its place has room again.
void session_placement::restore_process(session_record& x) {
  x.checkpointed = false;
  x.stage = session_stage::running;
  capacity_.recount(x);
  x.waiting_because.clear();
  state_.save(x);
  // A new client learns it from the lease alone.
  give_lease(x);
  out_.answer(x.client_peer, 0, control::restore_process{x.id, x.epoch});
}

void session_placement::note_checkpointed(
    session_record& x, const control::running_session& worker) {
  x.where.pgpus = worker.pgpus;
  x.worker = worker.worker;
  x.pid = worker.pid;
  state_.save(x);
}

bool session_placement::checkpointed_worker_lost(session_record& x,
                                                 const std::string& why) {
  if (!x.checkpointed)
    return false;
  x.checkpointed = false;
  // It may still be there, on a pGPU that was removed.
  out_.to_node(x.where.node, control::stop_worker{x.id, x.epoch, why});
  x.pid = 0;
  x.state_bytes = 0;
  out_.emit(event_kind::worker_exited,
            "its worker process was checkpointed, and is lost: " + why,
            subject_of(x));
  state_.names.withdraw(logical_name(x.vgpu), x.epoch);
  state_.save(x);
  if (x.stage == session_stage::waiting)
    place(x);
  return true;
}

// -- the queue ----------------------------------------------------------------

policy::queue_rank session_placement::rank_of(const session_record& x) const {
  auto urgent = x.had_lease && !x.preempted;
  return {urgent, x.spec.priority, x.id.value,
          urgent ? time_point{} : x.swapping.queued_at};
}

std::vector<session_placement::queued> session_placement::queue() const {
  std::vector<std::pair<policy::queue_rank, queued>> waiting;
  for (const auto& [id, x] : state_.sessions)
    if (x.stage == session_stage::waiting)
      waiting.push_back({rank_of(x), {id}});
  std::sort(waiting.begin(), waiting.end(),
            [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<queued> out;
  for (const auto& [rank, x] : waiting)
    out.push_back(x);
  if (options_.swapping.promised <= 1)
    return out;
  auto left = memory_left_to_promise();
  for (auto& x : out) {
    const auto& session = state_.sessions.at(x.id);
    if (session.had_lease)
      continue;
    left -= static_cast<double>(session.spec.memory) * session.spec.gpus;
    x.promised = left >= 0;
  }
  std::ranges::stable_partition(out, &queued::promised);
  return out;
}

/// Returns bytes. A session that ever ran was promised its memory.
double session_placement::memory_left_to_promise() const {
  double out = 0;
  for (const auto& [name, node] : state_.nodes)
    for (const auto& pgpu : node.info.pgpus)
      if (node.state == node_record::stage::alive &&
          pgpu.state == control::pgpu_health::healthy)
        out += options_.swapping.promised *
               static_cast<double>(pgpu.facts.total_memory);
  for (const auto& [id, x] : state_.sessions)
    if (x.had_lease)
      out -= static_cast<double>(x.spec.memory) * x.spec.gpus;
  return out;
}

void session_placement::place_waiting() {
  for (auto next : queue()) {
    auto* x = state_.find(next.id);
    if (x == nullptr)
      continue;
    place(*x);
    if (x->stage == session_stage::waiting && !x->client_peer.empty() &&
        x->spec.memory != 0)
      keep_place_for(*x);
  }
  if (!kept_.empty())
    capacity_.index().release_kept();
  kept_.clear();
}

/// Keeps the pGPUs that a session without a place will get soonest. Sessions
/// behind it may take the rest, and never make it wait longer.
void session_placement::keep_place_for(const session_record& x) {
  auto where = capacity_.index().place_to_keep(state_.demand_of(x));
  if (!where)
    return;
  capacity_.index().keep(*where);
  kept_.push_back(std::move(*where));
}

void session_placement::ask_for_ticks(const session_record& x) const {
  if (x.stage == session_stage::starting)
    clock_.due_attended(x.start_by);
  if (x.stage != session_stage::waiting)
    return;
  if (x.retry_at > clock_.now())
    clock_.due(x.retry_at);
  if (x.wait_until && !x.had_lease)
    clock_.due(*x.wait_until);
}

} // namespace vgpu
