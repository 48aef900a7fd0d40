// Turns with memory, where more of it is promised than there is: vGPUs that
// work leave for those who wait, and wait themselves.
#include "actors/manager_core.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace vgpu {

namespace {

policy::duration from_milliseconds(double x) {
  return std::chrono::duration_cast<policy::duration>(
      std::chrono::duration<double, std::milli>{x});
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
  if (options_.rotation.promised <= 1)
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
        out += options_.rotation.promised *
               static_cast<double>(pgpu.facts.total_memory);
  for (const auto& [id, x] : sessions_)
    if (x.had_lease)
      out -= static_cast<double>(x.spec.memory) * x.spec.gpus;
  return out;
}

/// All whose turn may end, but where somebody leaves already.
std::vector<policy::resident> manager_core::residents() const {
  std::set<std::pair<std::string, std::uint32_t>> left;
  for (const auto& [id, x] : sessions_)
    if (x.moving && x.moving->for_whom)
      for (auto pgpu : x.where.pgpus)
        left.emplace(x.where.node, pgpu);
  std::vector<policy::resident> out;
  for (const auto& [id, x] : sessions_) {
    auto is_left = [&](auto pgpu) {
      return left.contains({x.where.node, pgpu});
    };
    if (x.spec.memory != 0 && x.load.session && may_move(x) &&
        std::ranges::none_of(x.where.pgpus, is_left))
      out.push_back({id, x.where, x.spec.memory, x.spec.priority,
                     x.resident_since, x.swapped, x.load.memory_bytes,
                     x.rests_until});
  }
  return out;
}

void manager_core::take_turns_with_memory() {
  turns_end_.reset();
  if (options_.rotation.promised <= 1)
    return;
  std::set<session_id> awaited;
  for (const auto& [id, x] : sessions_)
    if (x.moving && x.moving->for_whom)
      awaited.insert(x.moving->for_whom);
  for (const auto& [id, promised] : queue()) {
    if (awaited.size() >= options_.rotation.at_once)
      return; // whoever is done asks anew
    const auto& x = sessions_.at(id);
    if (!promised || awaited.contains(id) || x.client_peer.empty() ||
        x.spec.memory == 0 || x.aside || now_ < x.retry_at)
      continue;
    auto room =
        policy::make_room(view_for_placement(), demand_of(x), x.spec.priority,
                          residents(), now_, options_.rotation);
    for (auto leaver : room.leave)
      order_pause(sessions_.at(leaver),
                  {.what = session_movement::kind::suspend, .for_whom = id});
    if (!room.leave.empty())
      awaited.insert(id);
    if (room.look_again)
      turns_end_ =
          std::min(turns_end_.value_or(*room.look_again), *room.look_again);
  }
}

/// It has left, for somebody else.
void manager_core::note_preempted(session_record& x,
                                  const control::paused& how) {
  x.preempted = true;
  x.queued_at = now_;
  x.left_in = from_milliseconds(how.milliseconds);
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
  auto left_in = std::chrono::milliseconds{told.left_in_ms};
  if (told.back_in_ms != 0)
    x.swapped = left_in + std::chrono::milliseconds{told.back_in_ms};
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
    x.swapped = x.left_in + from_milliseconds(milliseconds);
  x.left_in = {};
}

} // namespace vgpu
