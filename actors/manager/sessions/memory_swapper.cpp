#include "actors/manager/sessions/memory_swapper.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace vgpu {

namespace {

/// Returns whether any pGPU with the memory is suitable. What such a session
/// cannot get, no other session with the same demand can.
bool has_no_constraints(const policy::demand& x) {
  return x.gpus == 1 && x.node.empty() && x.pgpu < 0 && x.backend.empty() &&
         x.capability == 0 && x.where != policy::demand::locality::local_only &&
         !x.beside_somebody && x.apart.empty();
}

} // namespace

void memory_swapper::departures::add(session_id whom,
                                     const policy::place& left) {
  for_whom.insert(whom);
  pgpus.insert(left.pgpus.begin(), left.pgpus.end());
}

memory_swapper::memory_swapper(const manager_options& options,
                               manager_clock& clock, cluster_state& state,
                               capacity_index& capacity,
                               const session_placement& placement,
                               movement& moves)
    : options_(options), clock_(clock), state_(state), capacity_(capacity),
      placement_(placement), moves_(moves) {}

memory_swapper::departures_by_node
memory_swapper::departures_under_way() const {
  departures_by_node out;
  for (const auto& [id, x] : state_.sessions)
    if (x.moving && x.moving->for_whom)
      out[x.where.node].add(x.moving->for_whom, x.where);
  return out;
}

/// Bounds what a node has to copy for swapping, regardless of other nodes.
bool memory_swapper::may_be_left(const policy::place& where,
                                 const departures_by_node& leaving) const {
  auto found = leaving.find(where.node);
  if (found == leaving.end())
    return true;
  const auto& [for_whom, pgpus] = found->second;
  return for_whom.size() < options_.swapping.at_once &&
         std::ranges::none_of(where.pgpus,
                              [&](auto x) { return pgpus.contains(x); });
}

/// Returns all sessions that may be swapped out, except where others leave
/// already.
std::vector<policy::resident>
memory_swapper::residents(const departures_by_node& leaving) const {
  std::vector<policy::resident> out;
  for (const auto& [id, x] : state_.sessions)
    if (x.spec.memory != 0 && x.load.session && moves_.may_move(x) &&
        may_be_left(x.where, leaving))
      out.push_back({id, x.where, x.spec.memory, x.spec.priority,
                     x.swapping.resident_since, x.swapping.out_and_in,
                     x.load.memory_bytes, x.rests_until});
  policy::sort_by_turn(out, options_.swapping);
  return out;
}

memory_swapper::pass memory_swapper::begin_pass() const {
  pass out;
  out.leaving = departures_under_way();
  for (const auto& [node, x] : out.leaving)
    out.awaited.insert(x.for_whom.begin(), x.for_whom.end());
  out.residents = residents(out.leaving);
  return out;
}

/// Returns whether departures of others can help a waiting session.
bool memory_swapper::wants_room(const session_placement::queued& waiting,
                                const pass& so_far) const {
  const auto& x = state_.sessions.at(waiting.id);
  return waiting.promised && !so_far.awaited.contains(waiting.id) &&
         !x.client_peer.empty() && x.spec.memory != 0 && !x.checkpointed &&
         clock_.now() >= x.retry_at;
}

void memory_swapper::on_tick() {
  next_.reset();
  if (options_.swapping.promised <= 1)
    return;
  auto so_far = begin_pass();
  std::size_t begun = 0;
  for (const auto& waiting : placement_.queue()) {
    if (so_far.residents.empty())
      return; // movements that end ask for a tick
    auto first = policy::turn_ends(so_far.residents.front(), options_.swapping);
    if (!wants_room(waiting, so_far))
      continue;
    if (first > clock_.now())
      return look_again_at(first); // no session leaves before
    if (make_room_for(state_.sessions.at(waiting.id), so_far) &&
        ++begun == movement::most_begun_at_once) {
      next_ = clock_.now();
      return;
    }
  }
}

/// Orders others to leave for a session. Returns false where none does.
bool memory_swapper::make_room_for(const session_record& x, pass& so_far) {
  auto failed = so_far.in_vain.find(x.spec.priority);
  if (failed != so_far.in_vain.end() && x.spec.memory >= failed->second)
    return false;
  auto what = state_.demand_of(x);
  if (capacity_.index().has_room(what))
    return false;
  auto room = room_for(x, what, so_far);
  if (room.look_again)
    look_again_at(*room.look_again);
  if (room.leave.empty()) {
    if (has_no_constraints(what))
      so_far.in_vain[x.spec.priority] = x.spec.memory;
    return false;
  }
  for (auto id : room.leave) {
    auto& leaver = state_.sessions.at(id);
    so_far.leaving[leaver.where.node].add(x.id, leaver.where);
    moves_.order(leaver,
                 {.what = session_movement::kind::suspend, .for_whom = x.id});
  }
  std::erase_if(so_far.residents, [&](const auto& y) {
    return !may_be_left(y.where, so_far.leaving);
  });
  return true;
}

policy::room_decision memory_swapper::room_for(const session_record& x,
                                               const policy::demand& what,
                                               pass& so_far) {
  auto nodes = [&](const std::string& name) {
    return capacity_.index().with_nothing_kept(name, so_far.copies);
  };
  auto at = so_far.residents.begin();
  auto next = [&] { return at == so_far.residents.end() ? nullptr : &*at++; };
  policy::room_decision out;
  if (!so_far.vain.cover(x.spec.priority, x.spec.memory))
    out = policy::make_room(nodes, what, x.spec.priority, next, clock_.now(),
                            options_.swapping);
  so_far.vain.note(x.spec.priority, out);
  return out;
}

void memory_swapper::look_again_at(time_point when) {
  next_ = std::min(next_.value_or(when), when);
}

} // namespace vgpu
