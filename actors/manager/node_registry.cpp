#include "actors/manager/node_registry.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace vgpu {

namespace {

using node_stage = node_record::stage;

constexpr std::size_t most_nodes = 4'096;

status check_inventory(const control::register_node& x,
                       const std::string& sender) {
  if ("node/" + x.name != sender)
    return fault{fault_kind::usage, sender + " registers as '" + x.name + "'"};
  std::set<std::uint32_t> ordinals;
  for (const auto& pgpu : x.pgpus)
    if (!ordinals.insert(pgpu.ordinal).second)
      return fault{fault_kind::usage,
                   "pGPU " + std::to_string(pgpu.ordinal) + " is listed twice"};
  return {};
}

/// Returns whether the record agrees with what a node lists of this epoch, or
/// the worker is still starting.
bool is_known(const session_record& x, const control::running_session& listed) {
  return x.epoch == listed.epoch &&
         (x.stage == session_stage::running ? x.worker == listed.worker
                                            : listed.worker.endpoint.empty());
}

/// Returns whether the worker of this epoch gave its state to the client and
/// ends.
bool is_released(const session_record& x, epoch of) {
  return x.released_epoch == of ||
         (x.epoch == of && x.stage == session_stage::suspended);
}

} // namespace

node_registry::node_registry(const manager_options& options,
                             manager_clock& clock, cluster_state& state,
                             outbox& out, capacity_index& capacity,
                             accounts& books, term_numbers& numbers,
                             const peer_registry& peers,
                             session_placement& placement,
                             session_lifecycle& lifecycle,
                             vgpu_settings& settings, idle_reclaimer& reclaimer)
    : options_(options), clock_(clock), state_(state), out_(out),
      capacity_(capacity), accounts_(books), numbers_(numbers), peers_(peers),
      placement_(placement), lifecycle_(lifecycle), settings_(settings),
      reclaimer_(reclaimer) {}

// -- registration -------------------------------------------------------------

void node_registry::handle(const std::string& peer,
                           const control::envelope& from,
                           const control::register_node& x) {
  if (auto good = check_inventory(x, from.from); !good)
    return out_.refuse(peer, from, good.why());
  if (state_.nodes.size() >= most_nodes && !state_.nodes.contains(x.name))
    return out_.refuse(peer, from,
                       {fault_kind::exhausted,
                        "the cluster has " + std::to_string(most_nodes) +
                            " nodes, and takes no more"});
  auto& node = state_.nodes[x.name];
  auto same = node.info.pid == x.pid && node.info.host == x.host;
  if (node.state == node_stage::alive && !same) {
    if (!node.seen.closed)
      return out_.refuse(
          peer, from,
          {fault_kind::refused,
           "a node named '" + x.name + "' is registered already (process " +
               std::to_string(node.info.pid) + "); choose another --name"});
    lose(node, node_stage::lost, "it was restarted");
  }
  // Where it proved its key, it is the node, which has connected anew.
  if (is_heard(node) && node.peer != peer && !from.who)
    return hold_claim(node, peer, from);
  claims_.erase(x.name);
  auto was_alive = node.state == node_stage::alive;
  node.peer = peer;
  node.seen = {clock_.attended()};
  node.state = node_stage::alive;
  node.draining = state_.drained.contains(x.name);
  capacity_.nodes_changed();
  clock_.due_attended(policy::lost_at(node.seen, options_.liveness));
  if (!was_alive)
    out_.emit(event_kind::node_joined,
              x.name + " joined with " + std::to_string(x.pgpus.size()) +
                  " pGPU(s)",
              {.node = x.name});
  take_inventory(node, x);
  reconcile(node, x);
  if (from.request != 0)
    out_.answer(peer, from.request, control::done{});
  lifecycle_.retry_early_requests();
  placement_.place_waiting();
}

/// Returns whether the node speaks on the connection on which it registered.
bool node_registry::is_heard(const node_record& node) const {
  return node.state == node_stage::alive &&
         !policy::is_silent(node.seen, clock_.attended(), options_.liveness);
}

/// Puts off a registration under the name, the process and the host of a node
/// that is heard on another connection. A node that lost that connection falls
/// silent on it, and nobody else can make it do so.
void node_registry::hold_claim(const node_record& node, const std::string& peer,
                               const control::envelope& from) {
  auto held = claims_.contains(node.info.name);
  claims_.insert_or_assign(node.info.name, std::pair{peer, from});
  if (!held)
    spdlog::warn("another connection claims to be node '{}', which is heard: "
                 "its registration waits",
                 node.info.name);
  clock_.due_attended(silent_at(node));
}

/// Returns when the node will be silent, unless a message arrives before.
time_point node_registry::silent_at(const node_record& node) const {
  return node.seen.heard + options_.liveness.lost_after / 2;
}

void node_registry::take_claims() {
  std::vector<std::pair<std::string, control::envelope>> due;
  std::erase_if(claims_, [&](auto& entry) {
    auto& [name, claim] = entry;
    auto ready = !is_heard(state_.nodes.at(name));
    if (ready)
      due.push_back(std::move(claim));
    return ready;
  });
  for (const auto& [peer, what] : due)
    handle(peer, what, std::get<control::register_node>(what.body));
}

/// Records the node's pGPUs, and moves sessions off one that failed.
void node_registry::take_inventory(node_record& node,
                                   const control::register_node& x) {
  auto before = std::exchange(node.info, x);
  node.info.sessions.clear();
  capacity_.nodes_changed();
  for (const auto& pgpu : x.pgpus) {
    auto old =
        std::ranges::find(before.pgpus, pgpu.ordinal, &control::pgpu::ordinal);
    auto was_healthy = old == before.pgpus.end() ||
                       old->state == control::pgpu_health::healthy;
    if (pgpu.state == control::pgpu_health::healthy || !was_healthy)
      continue;
    out_.emit(event_kind::device_lost,
              "pGPU " + std::to_string(pgpu.ordinal) + " of " + x.name +
                  " is " + control::name_of(pgpu.state),
              {.node = x.name});
    leave_failed_pgpu(x.name, pgpu.ordinal);
  }
}

void node_registry::leave_failed_pgpu(const std::string& node,
                                      std::uint32_t ordinal) {
  for (auto& [id, session] : state_.sessions)
    if (session.where.node == node &&
        std::ranges::count(session.where.pgpus, ordinal) != 0 &&
        !placement_.checkpointed_worker_lost(session, "device lost") &&
        session.placed())
      lifecycle_.displace(session, "device lost", false);
}

/// Makes the records agree with what the node runs.
void node_registry::reconcile(const node_record& node,
                              const control::register_node& x) {
  std::set<session_id> listed;
  for (const auto& running : x.sessions) {
    listed.insert(running.session);
    reconcile_listed(node, running);
  }
  std::vector<session_id> missing;
  for (const auto& [id, session] : state_.sessions)
    if (session.where.node == x.name && !listed.contains(id) &&
        (session.placed() || session.checkpointed))
      missing.push_back(id);
  for (auto id : missing) {
    auto& session = state_.sessions.at(id);
    if (!placement_.checkpointed_worker_lost(
            session, "its node does not run it any more"))
      lifecycle_.displace(session, "its worker is gone", false);
  }
}

void node_registry::reconcile_listed(const node_record& node,
                                     const control::running_session& x) {
  const auto& name = node.info.name;
  auto* session = state_.find(x.session);
  if (session == nullptr)
    return note_unclaimed(name, x);
  if (x.epoch > session->epoch)
    return fence_newer(name, *session, x);
  if (x.epoch < session->epoch ||
      (x.epoch == session->epoch && session->where.node != name))
    return lifecycle_.fence(name, x.session, x.epoch,
                            "its worker on " + name + " has epoch " +
                                std::to_string(x.epoch.value) +
                                ", the lease has " +
                                std::to_string(session->epoch.value));
  if (session->epoch == x.epoch && session->checkpointed)
    return placement_.note_checkpointed(*session, x);
  if (is_released(*session, x.epoch) || is_known(*session, x))
    return;
  auto was_running = session->stage == session_stage::running;
  lifecycle_.take_running(*session, name, x);
  if (!was_running)
    placement_.give_lease(*session);
}

/// Stops a worker of an epoch that this manager gave nobody. A former manager
/// may have given it without the client's knowledge, if the client adopted the
/// session and this node is its own. The next epoch is above that one.
void node_registry::fence_newer(const std::string& node,
                                session_record& session,
                                const control::running_session& x) {
  lifecycle_.fence(node, x.session, x.epoch,
                   "its worker on " + node + " has epoch " +
                       std::to_string(x.epoch.value) +
                       ", which nobody gave it");
  if (!session.adopted || session.stage != session_stage::starting ||
      session.where.node != node ||
      !term_numbers::is_plausible(x.session, x.vgpu, x.epoch))
    return;
  session.epoch = x.epoch;
  lifecycle_.displace(session, "its client does not know its worker", false);
}

/// Records a worker whose session has no record. After a restart its client
/// soon claims it, or the session has no client any more.
void node_registry::note_unclaimed(const std::string& node,
                                   const control::running_session& x) {
  auto until = clock_.started() + options_.restart_grace;
  if (clock_.attended() >= until)
    return lifecycle_.fence(
        node, x.session, x.epoch,
        "no such session is recorded: its worker is stopped");
  auto known = state_.unclaimed.find(x.session);
  if (known != state_.unclaimed.end() && known->second.node != node &&
      known->second.running.epoch >= x.epoch)
    return lifecycle_.fence(node, x.session, x.epoch,
                            "node " + known->second.node +
                                " has a worker of this session too");
  if (!term_numbers::is_plausible(x.session, x.vgpu, x.epoch) ||
      state_.unclaimed.size() >= most_sessions)
    return lifecycle_.fence(node, x.session, x.epoch,
                            "no manager gives such a number");
  numbers_.note_numbers(x.session, x.vgpu);
  state_.unclaimed[x.session] = {node, x, until};
  clock_.due_attended(until);
}

// -- reports of nodes ---------------------------------------------------------

void node_registry::handle(const std::string& peer,
                           const control::envelope& from,
                           const control::node_beat& x) {
  auto i = state_.nodes.find(registered(peer));
  // It never registered, and keeps its last accounts until it has.
  if (i == state_.nodes.end())
    return out_.answer(peer, from.request, control::beat_ack{0, 0});
  accounts_.note_ended(i->first, x.ended);
  // It was given up, and must register again.
  if (i->second.state != node_stage::alive)
    return out_.answer(peer, from.request, control::beat_ack{x.number, 0});
  if (i->second.seen.closed)
    capacity_.nodes_changed();
  i->second.seen = {clock_.attended()};
  for (const auto& load : x.sessions) {
    accounts_.note_use(i->first, load);
    auto* session = state_.find(load.session);
    if (session == nullptr || load.epoch != session->epoch)
      continue;
    session->load = load;
    reclaimer_.note_activity(*session);
    settings_.announce_terms(*session);
  }
  out_.answer(peer, from.request,
              control::beat_ack{x.number, peers_.incarnation()});
}

/// Returns the session if this node has, or is about to have, its worker of
/// this epoch; otherwise null.
session_record* node_registry::session_at(const std::string& node,
                                          session_id id, vgpu::epoch of) {
  auto* found = state_.find(id);
  return found != nullptr && found->epoch == of && found->where.node == node
             ? found
             : nullptr;
}

void node_registry::handle(const std::string& peer, const control::envelope&,
                           const control::worker_started& x) {
  auto name = registered(peer);
  auto* session = session_at(name, x.session, x.epoch);
  if (session == nullptr) {
    if (x.failure.empty() && !name.empty())
      lifecycle_.fence(
          name, x.session, x.epoch,
          "a worker started too late: the session has another epoch");
    return;
  }
  if (session->stage != session_stage::starting)
    return;
  if (!x.failure.empty())
    return lifecycle_.displace(
        *session, "worker failed to start: " + printable(x.failure), true);
  lifecycle_.take_running(*session, name,
                          {x.session, x.epoch, session->vgpu,
                           session->where.pgpus, x.worker, x.pid});
  placement_.give_lease(*session);
}

void node_registry::handle(const std::string& peer, const control::envelope&,
                           const control::worker_exited& x) {
  auto* session = session_at(registered(peer), x.session, x.epoch);
  if (session == nullptr)
    return;
  if (placement_.checkpointed_worker_lost(*session, printable(x.how)) ||
      !session->placed())
    return;
  if (x.clean && session->stage == session_stage::running)
    return lifecycle_.await_explanation(*session);
  out_.emit(event_kind::worker_exited, "its worker ended: " + printable(x.how),
            subject_of(*session));
  lifecycle_.displace(*session, "worker exited: " + printable(x.how), true);
}

void node_registry::handle(const std::string& peer,
                           const control::envelope& from,
                           const control::inject_fault& x) {
  if (auto ok = state_.check_pgpu(x.node, x.pgpu); !ok)
    return out_.refuse(peer, from, ok.why());
  out_.emit(event_kind::fault_injected,
            "pGPU " + std::to_string(x.pgpu) + " of " + x.node + ": " +
                name_of(x.kind),
            {.node = x.node});
  out_.to_node(x.node, x);
  out_.answer(peer, from.request, control::done{});
}

// -- nodes go -----------------------------------------------------------------

std::string node_registry::registered(const std::string& peer) const {
  auto name = peers_.node_of(peer);
  auto i = state_.nodes.find(name);
  return i != state_.nodes.end() && i->second.peer == peer ? name
                                                           : std::string{};
}

void node_registry::node_leaves(const std::string& name) {
  auto i = state_.nodes.find(name);
  if (i != state_.nodes.end() && i->second.state == node_stage::alive)
    lose(i->second, node_stage::left, "it left");
}

void node_registry::connection_gone(const std::string& peer) {
  std::erase_if(claims_, [&](const auto& x) { return x.second.first == peer; });
  for (auto& [name, node] : state_.nodes)
    if (node.peer == peer && node.state == node_stage::alive) {
      node.seen.closed = clock_.attended();
      capacity_.nodes_changed();
      clock_.due_attended(policy::lost_at(node.seen, options_.liveness));
    }
  take_claims();
}

void node_registry::lose(node_record& node, node_stage state,
                         const std::string& why) {
  const auto& name = node.info.name;
  auto left = state == node_stage::left;
  node.state = state;
  capacity_.nodes_changed();
  out_.emit(left ? event_kind::node_left : event_kind::node_lost,
            name + ": " + why, {.node = name});
  std::vector<session_id> displaced;
  for (const auto& [id, session] : state_.sessions)
    if (session.where.node == name &&
        (session.placed() || session.checkpointed))
      displaced.push_back(id);
  std::string reason = left ? "node left" : "node lost";
  for (auto id : displaced) {
    auto& session = state_.sessions.at(id);
    if (!placement_.checkpointed_worker_lost(session, reason))
      lifecycle_.displace(session, reason, false);
  }
}

// -- silence ------------------------------------------------------------------

void node_registry::on_tick() {
  take_claims();
  // A connection's messages are read before its silence is believed.
  if (looking_ == look::none && any_overdue(clock_.attended())) {
    looking_ = look::wanted;
    look_from_ = clock_.attended();
  }
}

bool node_registry::wants_look() noexcept {
  if (looking_ != look::wanted)
    return false;
  looking_ = look::under_way;
  return true;
}

bool node_registry::is_overdue(const node_record& node,
                               time_point attended) const {
  return node.state == node_stage::alive
             ? policy::is_lost(node.seen, attended, options_.liveness)
             : node.state == node_stage::expected &&
                   attended >= node.expected_until;
}

bool node_registry::any_overdue(time_point attended) const {
  return std::ranges::any_of(state_.nodes, [&](const auto& x) {
    return is_overdue(x.second, attended);
  });
}

void node_registry::looked() {
  if (std::exchange(looking_, look::none) != look::under_way)
    return;
  auto doubts = doubts_silence();
  for (auto& [name, node] : state_.nodes) {
    // What became due since the look began waits for the next one.
    if (!is_overdue(node, look_from_))
      continue;
    if (node.state == node_stage::expected)
      lose(node, node_stage::lost,
           "it did not come back after the manager's restart");
    else if (doubts && !node.seen.doubted)
      node.seen.doubted = clock_.attended();
    else
      lose(node, node_stage::lost,
           node.seen.closed ? "its connection closed" : "it fell silent");
  }
}

/// Returns whether this manager, or its network, is likelier to be the cause of
/// a silence than the nodes are.
bool node_registry::doubts_silence() const {
  std::size_t alive = 0;
  std::size_t silent = 0;
  for (const auto& [name, node] : state_.nodes)
    if (node.state == node_stage::alive) {
      ++alive;
      silent +=
          policy::is_silent(node.seen, clock_.attended(), options_.liveness);
    }
  auto mass = policy::is_mass_silence(silent, alive);
  auto late = !clock_.settled();
  if (mass || late)
    spdlog::warn("{} of {} nodes are silent{}: waiting for them once more",
                 silent, alive,
                 late ? ", but this process stood still" : " at once");
  return mass || late;
}

void node_registry::ask_for_ticks() const {
  for (const auto& [name, claim] : claims_)
    clock_.due_attended(silent_at(state_.nodes.at(name)));
  if (looking_ != look::none)
    return;
  for (const auto& [name, node] : state_.nodes) {
    if (node.state == node_stage::alive)
      clock_.due_attended(policy::lost_at(node.seen, options_.liveness));
    else if (node.state == node_stage::expected)
      clock_.due_attended(node.expected_until);
  }
}

} // namespace vgpu
