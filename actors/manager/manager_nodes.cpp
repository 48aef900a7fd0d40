// The manager's dealings with nodes.
#include "actors/link/printable.hpp"
#include "actors/manager/manager_core.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

namespace vgpu {

namespace {

status check_inventory(const control::register_node& x,
                       const std::string& sender) {
  if ("node/" + x.name != sender)
    return fault{CUDA_ERROR_INVALID_VALUE,
                 sender + " registers as '" + x.name + "'"};
  std::set<std::uint32_t> ordinals;
  for (const auto& pgpu : x.pgpus)
    if (!ordinals.insert(pgpu.ordinal).second)
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "pGPU " + std::to_string(pgpu.ordinal) + " is listed twice"};
  return {};
}

} // namespace

bool manager_core::alive(const std::string& node) const {
  auto i = nodes_.find(node);
  return i != nodes_.end() && i->second.state == node_record::stage::alive;
}

bool manager_core::on_one_host(const std::string& node,
                               const std::string& other) const {
  return alive(node) && alive(other) &&
         nodes_.at(node).info.host == nodes_.at(other).info.host;
}

bool manager_core::send_to_node(const std::string& name, control::body what) {
  if (!alive(name))
    return false;
  send_(nodes_.at(name).peer, {"manager", 0, std::move(what)});
  return true;
}

/// The name of the node on this connection; empty when there is none.
std::string manager_core::node_of(const std::string& peer) const {
  auto i = peers_.find(peer);
  if (i == peers_.end() || i->second.as != control::role::node)
    return {};
  return i->second.name.substr(std::string_view{"node/"}.size());
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::register_node& x) {
  if (auto good = check_inventory(x, from.from); !good)
    return refuse(peer, from, good.why());
  auto& node = nodes_[x.name];
  auto same = node.info.pid == x.pid && node.info.host == x.host;
  if (node.state == node_record::stage::alive && !same) {
    if (!node.seen.closed)
      return refuse(peer, from,
                    {CUDA_ERROR_ALREADY_MAPPED,
                     "a node named '" + x.name + "' is here already (process " +
                         std::to_string(node.info.pid) +
                         "); choose another --name"});
    lose_node(node, node_record::stage::lost, "it was restarted");
  }
  auto was_alive = node.state == node_record::stage::alive;
  node.peer = peer;
  node.seen = {now_, {}};
  node.state = node_record::stage::alive;
  node.draining = drained_.contains(x.name);
  cluster_changed();
  due(policy::lost_at(node.seen, options_.liveness));
  if (!was_alive)
    emit("node-joined",
         x.name + " joined with " + std::to_string(x.pgpus.size()) + " pGPU(s)",
         {x.name, {}, {}, {}});
  take_inventory(node, x);
  reconcile(node, x);
  if (from.request != 0)
    answer(peer, from.request, control::done{});
  retry_held();
  retry_waiting();
}

/// Notes what the node has, and moves sessions off a pGPU that failed.
void manager_core::take_inventory(node_record& node,
                                  const control::register_node& x) {
  auto before = std::exchange(node.info, x);
  node.info.sessions.clear();
  cluster_changed();
  for (const auto& pgpu : x.pgpus) {
    auto old =
        std::find_if(before.pgpus.begin(), before.pgpus.end(),
                     [&](const auto& y) { return y.ordinal == pgpu.ordinal; });
    auto was_healthy = old == before.pgpus.end() || old->state == "healthy";
    if (pgpu.state == "healthy" || !was_healthy)
      continue;
    emit("device-lost",
         "pGPU " + std::to_string(pgpu.ordinal) + " of " + x.name + " is " +
             printable(pgpu.state),
         {x.name, {}, {}, {}});
    for (auto& [id, session] : sessions_)
      if (session.where.node == x.name &&
          std::count(session.where.pgpus.begin(), session.where.pgpus.end(),
                     pgpu.ordinal) != 0 &&
          !lost_aside(session, "device lost") && session.placed())
        displace(session, "device lost", false);
  }
}

/// Makes what the node runs and what is recorded agree.
void manager_core::reconcile(const node_record& node,
                             const control::register_node& x) {
  std::set<session_id> listed;
  for (const auto& running : x.sessions) {
    listed.insert(running.session);
    reconcile_listed(node, running);
  }
  std::vector<session_id> missing;
  for (const auto& [id, session] : sessions_)
    if (session.where.node == x.name && !listed.contains(id) &&
        (session.placed() || session.aside))
      missing.push_back(id);
  for (auto id : missing)
    if (!lost_aside(sessions_.at(id), "its node has it no more"))
      displace(sessions_.at(id), "its worker is gone", false);
}

void manager_core::reconcile_listed(const node_record& node,
                                    const control::running_session& x) {
  const auto& name = node.info.name;
  auto i = sessions_.find(x.session);
  if (i == sessions_.end()) {
    if (now_ >= started_ + options_.restart_grace)
      return fence(name, x.session, x.epoch,
                   "no such session is recorded: its worker is stopped");
    // Its client will come and claim it, or nobody.
    note_numbers(x.session, x.vgpu);
    unclaimed_[x.session] = {name, x, started_ + options_.restart_grace};
    due(started_ + options_.restart_grace);
    return;
  }
  auto& session = i->second;
  if (x.epoch < session.epoch ||
      (x.epoch == session.epoch && session.where.node != name))
    return fence(name, x.session, x.epoch,
                 "its worker on " + name + " has epoch " +
                     std::to_string(x.epoch.value) + ", the lease has " +
                     std::to_string(session.epoch.value));
  if (session.epoch == x.epoch && session.aside)
    return take_aside(session, x);
  // Its client has the state, and this one ends.
  if (session.gave_way == x.epoch ||
      (session.epoch == x.epoch && session.stage == session_stage::suspended))
    return;
  // Either nothing is new, or the worker is still on its way.
  if (session.epoch == x.epoch &&
      (session.stage == session_stage::running ? session.worker == x.worker
                                               : x.worker.endpoint.empty()))
    return;
  auto was_running = session.stage == session_stage::running;
  take_running(session, name, x);
  if (!was_running)
    give_lease(session);
}

void manager_core::fence(const std::string& node, session_id session,
                         vgpu::epoch stale, const std::string& text) {
  send_to_node(node, control::stop_worker{session, stale, "fenced"});
  emit("fenced", text, {node, session, {}, stale});
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::node_beat& x) {
  auto name = node_of(peer);
  auto i = nodes_.find(name);
  take_last_words(x.ended);
  if (i == nodes_.end() || i->second.peer != peer ||
      i->second.state != node_record::stage::alive) {
    // It has been given up, or never registered: it must do so (again).
    answer(peer, from.request, control::beat_ack{x.number, 0});
    return;
  }
  if (i->second.seen.closed)
    cluster_changed();
  i->second.seen = {now_, {}};
  for (const auto& load : x.sessions) {
    note_use(load);
    auto s = sessions_.find(load.session);
    if (s == sessions_.end() || load.epoch != s->second.epoch)
      continue;
    s->second.load = load;
    note_activity(s->second);
    quota_known(s->second);
  }
  answer(peer, from.request, control::beat_ack{x.number, incarnation_});
}

void manager_core::handle(const std::string& peer, const control::envelope&,
                          const control::worker_started& x) {
  auto name = node_of(peer);
  auto i = sessions_.find(x.session);
  if (i == sessions_.end() || i->second.epoch != x.epoch ||
      i->second.where.node != name) {
    if (x.failure.empty())
      fence(name, x.session, x.epoch,
            "a worker came up too late: the lease has moved on");
    return;
  }
  auto& session = i->second;
  if (session.stage != session_stage::starting)
    return;
  if (!x.failure.empty())
    return displace(session, "worker failed to start: " + printable(x.failure),
                    true);
  take_running(
      session, name,
      {x.session, x.epoch, session.vgpu, session.where.pgpus, x.worker, x.pid});
  give_lease(session);
}

void manager_core::handle(const std::string& peer, const control::envelope&,
                          const control::worker_exited& x) {
  auto name = node_of(peer);
  auto i = sessions_.find(x.session);
  if (i == sessions_.end() || i->second.epoch != x.epoch ||
      i->second.where.node != name)
    return;
  auto& session = i->second;
  if (lost_aside(session, printable(x.how)) || !session.placed())
    return;
  // A worker that ended in order was told so by its client, which closes the
  // session next, or says that it has the state.
  if (x.clean && session.stage == session_stage::running) {
    session.explained_by = now_ + options_.client_grace;
    return due(*session.explained_by);
  }
  emit("worker-exited", "its worker ended: " + printable(x.how),
       about_session(session));
  displace(session, "worker exited: " + printable(x.how), true);
}

void manager_core::node_leaves(const std::string& name) {
  auto i = nodes_.find(name);
  if (i != nodes_.end() && i->second.state == node_record::stage::alive)
    lose_node(i->second, node_record::stage::left, "it left");
}

void manager_core::lose_node(node_record& node, node_record::stage state,
                             const std::string& why) {
  const auto& name = node.info.name;
  auto left = state == node_record::stage::left;
  node.state = state;
  cluster_changed();
  emit(left ? "node-left" : "node-lost", name + ": " + why, {name, {}, {}, {}});
  std::vector<session_id> moving;
  for (const auto& [id, session] : sessions_)
    if (session.where.node == name && (session.placed() || session.aside))
      moving.push_back(id);
  for (auto id : moving)
    if (!lost_aside(sessions_.at(id), left ? "node left" : "node lost"))
      displace(sessions_.at(id), left ? "node left" : "node lost", false);
}

} // namespace vgpu
