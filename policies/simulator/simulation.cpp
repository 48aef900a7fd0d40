#include "policies/simulator/simulation.hpp"

#include "policies/simulator/admission_queue.hpp"
#include "policies/simulator/balancing.hpp"
#include "policies/simulator/idle_sessions.hpp"
#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/programs.hpp"
#include "policies/simulator/scene.hpp"
#include "policies/simulator/simulated_swapping.hpp"
#include "policies/simulator/tally.hpp"

#include <algorithm>
#include <utility>

namespace vgpu::simulator {

namespace {

/// Executes the events in order and applies them to their vGPUs: how one
/// arrives, gets a place, loses it and ends. Each part handles one subject.
/// This class applies the consequences of one part's answer to the other parts.
class simulation {
public:
  simulation(const std::vector<arrival>& trace,
             const simulation_options& options)
      : scene_(trace, options), places_(scene_), programs_(scene_),
        turns_(options.swapping, trace.size()),
        queue_(scene_, places_, turns_,
               [this](std::uint32_t i) { return try_place(i); }),
        swapping_(scene_, places_, queue_, turns_), idle_(scene_),
        balancing_(scene_, places_, programs_, queue_), tally_(scene_) {}

  outcome run();

private:
  using kind = event::kind;

  simulated_session& at(std::uint32_t i) { return scene_.sessions[i]; }

  void advance(double to);
  bool is_moot(const event& x) const;
  void drop_moot();
  void happens();

  // Entering and leaving the queue.
  void arrives(std::uint32_t i);
  void waits(std::uint32_t i);
  bool try_place(std::uint32_t i);
  void serve_queue();
  void gives_up(std::uint32_t i);

  // Having a place.
  void settle(std::uint32_t i, policy::place where);
  void leave(std::uint32_t i);
  void work(std::uint32_t i);
  void work_ends(std::uint32_t i);
  void idle_ends(std::uint32_t i);
  void done(std::uint32_t i);

  // Beginning and ending a copy of memory.
  void begin_copy(std::uint32_t i, simulated_copy what);
  void copied(std::uint32_t i);
  void suspended(std::uint32_t i);
  void made_room(std::uint32_t i);
  void arrives_there(std::uint32_t i);

  // Making vGPUs leave.
  void reclaim_idle();
  void take_turns();
  void look();

  scene scene_;
  places places_;
  programs programs_;
  swap_candidates turns_;
  admission queue_;
  simulated_swapping swapping_;
  idle_sessions idle_;
  balancing balancing_;
  tally tally_;
};

// -- time ---------------------------------------------------------------------

outcome simulation::run() {
  const auto& trace = scene_.trace;
  auto& out = scene_.out;
  std::size_t next = 0;
  bool last_came = false;
  for (;;) {
    drop_moot();
    auto coming = next < trace.size() ? trace[next].at : never;
    auto due = scene_.events.due();
    auto when = std::min(coming, due);
    if (queue_.is_released() && when > scene_.now)
      serve_queue();
    else if (when == never)
      break;
    else if (advance(when); due <= coming)
      happens();
    else
      arrives(static_cast<std::uint32_t>(next++));
    if (next == trace.size() && !std::exchange(last_came, true))
      out.while_coming = out.over_time.mean();
  }
  // All vGPUs came at once.
  if (trace.back().at <= 0)
    out.while_coming = out.over_time.mean();
  out.never = queue_.size();
  out.swapping = swapping_.swapped_part();
  tally_.finish();
  return std::move(out);
}

void simulation::advance(double to) {
  to = std::max(to, scene_.now);
  scene_.out.over_time.add(scene_.now, to,
                           {std::max(programs_.busy(), 0.0),
                            places_.promised_part(),
                            static_cast<double>(queue_.size())});
  scene_.now = to;
}

/// Returns whether an event is obsolete. Such an event must not lengthen the
/// simulated time.
bool simulation::is_moot(const event& x) const {
  const auto& g = scene_.sessions[x.who];
  switch (x.what) {
  case kind::work_ends:
    return x.version != g.version;
  case kind::idle_long:
    return !g.idle || g.phase != x.version ||
           g.stage != simulated_stage::placed || g.copy != simulated_copy::none;
  case kind::gives_up:
    return g.stage != simulated_stage::waiting || g.had_place;
  case kind::look:
    return !programs_.is_any_overloaded();
  case kind::turn_ends:
    return swapping_.is_moot(x.version);
  case kind::idle_ends:
  case kind::copied:
    return false;
  }
  return false;
}

void simulation::drop_moot() {
  auto& events = scene_.events;
  while (!events.empty() && is_moot(events.next())) {
    if (events.next().what == kind::look)
      balancing_.stop();
    events.drop();
  }
}

void simulation::happens() {
  auto x = scene_.events.next();
  scene_.events.drop();
  switch (x.what) {
  case kind::work_ends:
    return work_ends(x.who);
  case kind::idle_ends:
    return idle_ends(x.who);
  case kind::idle_long:
    idle_.note(x.who);
    return reclaim_idle();
  case kind::copied:
    return copied(x.who);
  case kind::gives_up:
    return gives_up(x.who);
  case kind::turn_ends:
    return take_turns();
  case kind::look:
    return look();
  }
}

// -- into the queue, and out of it --------------------------------------------

void simulation::arrives(std::uint32_t i) {
  if (!places_.admits(i)) {
    at(i).stage = simulated_stage::gone;
    ++scene_.out.refused;
    return;
  }
  swapping_.comes(i);
  programs_.begin(i);
  waits(i);
  auto patience = scene_.asked_by(i).wait_ms;
  if (at(i).stage == simulated_stage::waiting &&
      patience != control::wait_for_ever)
    scene_.events.expect(scene_.now + patience / 1e3, kind::gives_up, i);
}

void simulation::waits(std::uint32_t i) {
  if (queue_.finds_nothing(i))
    take_turns();
}

bool simulation::try_place(std::uint32_t i) {
  auto where = places_.choose(i);
  if (!where)
    return false;
  auto& g = at(i);
  auto again = std::exchange(g.had_place, true);
  if (!again && places_.could_be_local(i)) {
    ++scene_.out.could_be_local;
    scene_.out.local += where->node == scene_.trace[i].host ? 1 : 0;
  }
  g.waited += scene_.now - g.asked_at;
  settle(i, std::move(*where));
  if (again) {
    begin_copy(i, simulated_copy::restore);
    return true;
  }
  tally_.is_placed(i);
  queue_.promise(scene_.bytes_of(i));
  swapping_.begins(i);
  work(i);
  return true;
}

void simulation::serve_queue() {
  queue_.serve();
  take_turns();
}

void simulation::gives_up(std::uint32_t i) {
  auto& g = at(i);
  queue_.forget(i);
  g.waited += scene_.now - g.asked_at;
  g.stage = simulated_stage::gone;
  ++scene_.out.gave_up;
  queue_.release(); // what was kept for it
}

// -- on a place ---------------------------------------------------------------

void simulation::settle(std::uint32_t i, policy::place where) {
  places_.enter(i, std::move(where));
  swapping_.has_place(i);
  programs_.settle(i);
}

void simulation::leave(std::uint32_t i) {
  swapping_.leaves(i);
  programs_.leave(i);
  places_.strike(i);
  queue_.release();
}

void simulation::work(std::uint32_t i) {
  programs_.work(i);
  balancing_.watch();
}

void simulation::work_ends(std::uint32_t i) {
  if (!programs_.is_idle_now(i))
    done(i);
}

void simulation::idle_ends(std::uint32_t i) {
  auto& g = at(i);
  idle_.forget(i);
  programs_.wake(i);
  if (g.stage == simulated_stage::suspended)
    waits(i);
  else if (g.stage == simulated_stage::placed && g.copy == simulated_copy::none)
    work(i);
}

void simulation::done(std::uint32_t i) {
  leave(i);
  queue_.promise(-scene_.bytes_of(i));
  at(i).stage = simulated_stage::gone;
  tally_.is_done(i);
}

// -- copies: suspended, brought back, moved -----------------------------------

void simulation::begin_copy(std::uint32_t i, simulated_copy what) {
  programs_.rest(i);
  at(i).copy = what;
  swapping_.stays(i);
  scene_.events.expect(scene_.now + scene_.copy_time(i), kind::copied, i);
}

void simulation::copied(std::uint32_t i) {
  auto& g = at(i);
  auto what = std::exchange(g.copy, simulated_copy::none);
  if (what == simulated_copy::suspend)
    return suspended(i);
  if (what == simulated_copy::preempt)
    return made_room(i);
  if (what == simulated_copy::migrate)
    arrives_there(i);
  else
    swapping_.is_back(i);
  swapping_.may_leave(i);
  if (g.idle)
    idle_.note(i);
  else
    work(i);
  reclaim_idle();
}

void simulation::suspended(std::uint32_t i) {
  idle_.has_left(i);
  ++scene_.out.reclaimed;
  leave(i);
  at(i).stage = simulated_stage::suspended;
  if (!at(i).idle)
    waits(i);
  reclaim_idle();
}

void simulation::made_room(std::uint32_t i) {
  ++scene_.out.preempted;
  leave(i);
  swapping_.made_room(i);
  at(i).stage = simulated_stage::suspended;
  if (!at(i).idle)
    waits(i);
}

/// The copy of a migration has ended. The vGPU moves if there is still room.
void simulation::arrives_there(std::uint32_t i) {
  const auto& where = balancing_.ends();
  if (!places_.may_move(i, where))
    return;
  leave(i);
  settle(i, where);
  swapping_.was_moved(i);
  auto& g = at(i);
  g.was_moved = true;
  g.moved_at = scene_.now;
  ++scene_.out.migrations;
}

// -- suspending vGPUs for others ----------------------------------------------

void simulation::reclaim_idle() {
  for (auto i : idle_.choose())
    begin_copy(i, simulated_copy::suspend);
}

/// Suspends vGPUs whose turns are over, for waiting vGPUs.
void simulation::take_turns() {
  for (auto i : swapping_.make_room()) {
    idle_.forget(i);
    begin_copy(i, simulated_copy::preempt);
  }
  swapping_.look_again();
}

void simulation::look() {
  if (auto who = balancing_.look())
    begin_copy(*who, simulated_copy::migrate);
}

} // namespace

outcome simulate(const std::vector<arrival>& trace,
                 const simulation_options& options) {
  return simulation{trace, options}.run();
}

} // namespace vgpu::simulator
