// Turns with memory, where more of it is promised than there is: vGPUs that
// work leave for those who wait, and wait themselves.
#include "actors/manager/manager_core.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace vgpu {

namespace {

/// Clients say how long it took to leave or to come back. A turn lasts for some
/// times that, and a longer one is not believed: it would never end.
constexpr std::chrono::minutes longest_believed{5};

policy::duration believed(double milliseconds) {
  using given = std::chrono::duration<double, std::milli>;
  auto most = given{longest_believed}.count();
  auto within = milliseconds > 0 ? std::min(milliseconds, most) : 0; // not NaN
  return std::chrono::duration_cast<policy::duration>(given{within});
}

/// Whether any pGPU will do that has the memory: what it cannot get, nobody can
/// who asks for as much.
bool has_no_constraints(const policy::demand& x) {
  return x.gpus == 1 && x.node.empty() && x.pgpu < 0 && x.backend.empty() &&
         x.capability == 0 && x.where != policy::demand::locality::local_only &&
         !x.beside_somebody && x.apart.empty();
}

} // namespace

policy::queue_rank manager_core::rank_of(const session_record& x) const {
  auto urgent = x.had_lease && !x.preempted;
  return {urgent, x.spec.priority, x.id.value,
          urgent ? time_point{} : x.queued_at};
}

/// Who waits, in order. For whom nothing can be promised yet, and who came
/// after that one, waits behind all to whom something was.
std::vector<manager_core::queued> manager_core::queue() const {
  std::vector<std::pair<policy::queue_rank, queued>> waiting;
  for (const auto& [id, x] : sessions_)
    if (x.stage == session_stage::waiting)
      waiting.push_back({rank_of(x), {id}});
  std::sort(waiting.begin(), waiting.end(),
            [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<queued> out;
  for (const auto& [rank, x] : waiting)
    out.push_back(x);
  if (options_.swapping.promised <= 1)
    return out;
  auto left = left_to_promise();
  for (auto& x : out) {
    const auto& session = sessions_.at(x.id);
    if (session.had_lease)
      continue;
    left -= static_cast<double>(session.spec.memory) * session.spec.gpus;
    x.promised = left >= 0;
  }
  std::ranges::stable_partition(out, &queued::promised);
  return out;
}

/// Bytes. Who ever ran was promised its memory.
double manager_core::left_to_promise() const {
  double out = 0;
  for (const auto& [name, node] : nodes_)
    for (const auto& pgpu : node.info.pgpus)
      if (node.state == node_record::stage::alive && pgpu.state == "healthy")
        out += options_.swapping.promised *
               static_cast<double>(pgpu.facts.total_memory);
  for (const auto& [id, x] : sessions_)
    if (x.had_lease)
      out -= static_cast<double>(x.spec.memory) * x.spec.gpus;
  return out;
}

manager_core::departures_by_node manager_core::who_leaves() const {
  departures_by_node out;
  for (const auto& [id, x] : sessions_)
    if (x.moving && x.moving->for_whom)
      out[x.where.node].add(x.moving->for_whom, x.where);
  return out;
}

/// What a node has to copy for turns is bounded, whatever other nodes do.
bool manager_core::may_be_left(const policy::place& where,
                               const departures_by_node& leaving) const {
  auto found = leaving.find(where.node);
  if (found == leaving.end())
    return true;
  const auto& [for_whom, pgpus] = found->second;
  return for_whom.size() < options_.swapping.at_once &&
         std::ranges::none_of(where.pgpus,
                              [&](auto x) { return pgpus.contains(x); });
}

/// All whose turn may end, but where others leave already; those whose turns
/// end first come first.
std::vector<policy::resident>
manager_core::residents(const departures_by_node& leaving) const {
  std::vector<policy::resident> out;
  for (const auto& [id, x] : sessions_)
    if (x.spec.memory != 0 && x.load.session && may_move(x) &&
        may_be_left(x.where, leaving))
      out.push_back({id, x.where, x.spec.memory, x.spec.priority,
                     x.resident_since, x.swapped, x.load.memory_bytes,
                     x.rests_until});
  policy::sort_by_turn(out, options_.swapping);
  return out;
}

void manager_core::take_turns_with_memory() {
  turns_end_.reset();
  if (options_.swapping.promised <= 1)
    return;
  auto leaving = who_leaves();
  std::set<session_id> awaited;
  for (const auto& [node, x] : leaving)
    awaited.insert(x.for_whom.begin(), x.for_whom.end());
  auto all = residents(leaving);
  std::map<std::string, policy::node_view> copies;
  auto nodes = [&](const std::string& name) {
    return index().with_nothing_kept(name, copies);
  };
  std::map<std::int32_t, std::uint64_t> in_vain; // least memory, by priority
  policy::vain_searches vain;
  std::size_t begun = 0;
  for (const auto& [id, promised] : queue()) {
    if (all.empty())
      return; // whoever is done asks anew
    auto first = policy::turn_ends(all.front(), options_.swapping);
    const auto& x = sessions_.at(id);
    if (!promised || awaited.contains(id) || x.client_peer.empty() ||
        x.spec.memory == 0 || x.aside || now_ < x.retry_at)
      continue;
    if (first > now_) {
      turns_end_ = std::min(turns_end_.value_or(first), first);
      return; // before then nobody leaves
    }
    auto failed = in_vain.find(x.spec.priority);
    if (failed != in_vain.end() && x.spec.memory >= failed->second)
      continue;
    auto what = demand_of(x);
    if (index().has_room(what))
      continue;
    auto at = all.begin();
    auto next = [&] { return at == all.end() ? nullptr : &*at++; };
    policy::room_decision room;
    if (!vain.cover(x.spec.priority, x.spec.memory))
      room = policy::make_room(nodes, what, x.spec.priority, next, now_,
                               options_.swapping);
    vain.note(x.spec.priority, room);
    if (room.look_again)
      turns_end_ =
          std::min(turns_end_.value_or(*room.look_again), *room.look_again);
    if (room.leave.empty() && has_no_constraints(what))
      in_vain[x.spec.priority] = x.spec.memory;
    if (room.leave.empty())
      continue;
    for (auto who : room.leave) {
      auto& leaver = sessions_.at(who);
      leaving[leaver.where.node].add(id, leaver.where);
      order_pause(leaver,
                  {.what = session_movement::kind::suspend, .for_whom = id});
    }
    std::erase_if(
        all, [&](const auto& y) { return !may_be_left(y.where, leaving); });
    if (++begun == most_begun) {
      turns_end_ = now_;
      return;
    }
  }
}

/// It has left, for somebody else.
void manager_core::note_preempted(session_record& x,
                                  const control::paused& how) {
  x.preempted = true;
  x.queued_at = now_;
  x.left_in = believed(how.milliseconds);
}

/// It has a worker. Of one that had it before this manager came, its client has
/// told since when.
void manager_core::begin_turn(session_record& x) {
  x.preempted = false;
  if (!std::exchange(x.turn_told, false))
    x.resident_since = now_;
}

/// Its turns were an earlier manager's: its client knows of them.
void manager_core::hear_of_turns(session_record& x,
                                 const control::memory_turns& told) {
  if (!std::exchange(x.from_before, false))
    return;
  auto since = now_ - std::chrono::milliseconds{told.since_ms};
  auto left_in = believed(told.left_in_ms);
  if (told.back_in_ms != 0)
    x.swapped = left_in + believed(told.back_in_ms);
  if (x.placed()) {
    x.resident_since = since;
    x.turn_told = x.stage == session_stage::starting;
    return;
  }
  x.preempted = x.preempted || told.preempted;
  if (!x.preempted || told.since_ms == 0)
    return;
  x.queued_at = since;
  x.left_in = left_in;
}

/// It is back, and has its memory.
void manager_core::has_its_turn(session_record& x, double milliseconds) {
  x.resident_since = now_;
  if (x.left_in > policy::duration{0})
    x.swapped = x.left_in + believed(milliseconds);
  x.left_in = {};
}

} // namespace vgpu
