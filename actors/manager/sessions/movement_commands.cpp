#include "actors/manager/sessions/movement_commands.hpp"

#include "actors/manager/sessions/session_lookup.hpp"
#include "actors/manager/sessions/session_texts.hpp"
#include "policies/placement/placement.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace vgpu {

namespace {

/// Removes the pGPUs of a session from a cluster.
policy::cluster_view without_place(policy::cluster_view cluster,
                                   const policy::place& here) {
  for (auto& node : cluster.nodes)
    if (node.name == here.node)
      for (auto& pgpu : node.pgpus)
        pgpu.healthy =
            pgpu.healthy && std::ranges::count(here.pgpus, pgpu.ordinal) == 0;
  return cluster;
}

} // namespace

movement_commands::movement_commands(const manager_options& options,
                                     cluster_state& state, outbox& out,
                                     capacity_index& capacity,
                                     session_placement& placement,
                                     movement& moves)
    : options_(options), state_(state), out_(out), capacity_(capacity),
      placement_(placement), moves_(moves) {}

void movement_commands::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::suspend_vgpu& x) {
  auto* session = session_of_vgpu(state_, out_, peer, from, x.vgpu);
  if (session == nullptr)
    return;
  if (session->stage == session_stage::suspended && !session->moving) {
    session->held = session->held || x.hold;
    state_.save(*session);
    if (session->held)
      moves_.tell_to_hold(*session);
    return out_.answer(peer, from.request, control::done{});
  }
  if (auto ok = moves_.may_move(*session); !ok)
    return out_.refuse(peer, from, ok.why());
  moves_.order(*session, {.what = session_movement::kind::suspend,
                          .hold = x.hold,
                          .peer = peer,
                          .request = from.request});
}

void movement_commands::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::resume_vgpu& x) {
  auto* session = session_of_vgpu(state_, out_, peer, from, x.vgpu);
  if (session == nullptr)
    return;
  if (session->stage == session_stage::running && !session->moving)
    return out_.answer(peer, from.request, control::done{});
  if (session->stage != session_stage::suspended || session->moving)
    return out_.refuse(peer, from,
                       {fault_kind::not_ready,
                        text_of_vgpu(*session) +
                            " is being moved or placed; wait for that to end"});
  session->moving = session_movement{.what = session_movement::kind::resume,
                                     .from = session->where,
                                     .at = session_movement::phase::restoring,
                                     .peer = peer,
                                     .request = from.request};
  moves_.resume(*session, "resumed");
}

result<policy::place>
movement_commands::target_of(const session_record& x,
                             const control::migrate_vgpu& what) const {
  auto refused = [&](const std::string& why) {
    return fault{fault_kind::not_ready,
                 text_of_vgpu(x) + " cannot be migrated: " + why};
  };
  auto cluster = state_.view();
  for (auto& node : cluster.nodes)
    node.alive = node.alive && !state_.nodes.at(node.name).draining;
  if (!what.node.empty()) {
    if (auto ok = state_.check_node(what.node); !ok)
      return refused(ok.why().what);
    if (state_.nodes.at(what.node).draining)
      return refused("node " + what.node +
                     " is drained; `vgpu drain --undo` takes it back");
    policy::place wanted{what.node, {}};
    if (what.pgpu >= 0)
      wanted.pgpus.push_back(static_cast<std::uint32_t>(what.pgpu));
    cluster = only_place(std::move(cluster), wanted);
  }
  auto demand = state_.demand_of(x);
  demand.failing.clear();
  auto found = policy::choose_place(without_place(cluster, x.where), demand,
                                    options_.placement);
  if (auto* none = std::get_if<policy::no_place>(&found))
    return refused(none->why + ", besides where it is");
  // The target is decided now, because nothing may have changed by the time the
  // state is taken.
  return std::get<policy::place>(std::move(found));
}

void movement_commands::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::migrate_vgpu& x) {
  auto* session = session_of_vgpu(state_, out_, peer, from, x.vgpu);
  if (session == nullptr)
    return;
  if (auto ok = moves_.may_move(*session); !ok)
    return out_.refuse(peer, from, ok.why());
  auto target = target_of(*session, x);
  if (!target)
    return out_.refuse(peer, from, target.why());
  moves_.order(*session, {.what = session_movement::kind::migrate,
                          .target = *target,
                          .peer = peer,
                          .request = from.request});
}

// -- drains -------------------------------------------------------------------

void movement_commands::handle(const std::string& peer,
                               const control::envelope& from,
                               const control::drain_node& x) {
  if (auto ok = state_.check_node(x.node); !ok)
    return out_.refuse(peer, from, ok.why());
  auto& node = state_.nodes.at(x.node);
  auto is_so_already = node.draining == !x.undo;
  if (!is_so_already)
    set_draining(node, !x.undo);
  out_.answer(peer, from.request, control::done{});
  if (x.undo)
    placement_.place_waiting();
  else
    move_all_off(x.node);
}

void movement_commands::set_draining(node_record& node, bool draining) {
  const auto& name = node.info.name;
  if (draining)
    out_.emit(event_kind::node_drained, name + " takes no more sessions",
              {.node = name});
  else
    out_.emit(event_kind::node_undrained, name + " takes sessions again",
              {.node = name});
  if (state_.kept != nullptr)
    state_.kept->save_drained(name, draining);
  node.draining = draining;
  if (draining)
    state_.drained.insert(name);
  else
    state_.drained.erase(name);
  capacity_.nodes_changed();
}

void movement_commands::move_all_off(const std::string& node) {
  for (auto& [id, session] : state_.sessions) {
    if (session.where.node != node || !moves_.may_move(session))
      continue;
    auto target = target_of(session, {session.vgpu, "", -1});
    if (target)
      moves_.order(session, {.what = session_movement::kind::migrate,
                             .target = *target});
    else
      out_.emit(event_kind::move_failed, target.why().what,
                subject_of(session));
  }
}

} // namespace vgpu
