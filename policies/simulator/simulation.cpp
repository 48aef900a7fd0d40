#include "policies/simulator/simulation.hpp"

#include "policies/admission.hpp"
#include "policies/placement_index.hpp"
#include "policies/simulator/devices.hpp"
#include "policies/simulator/guests.hpp"
#include "policies/simulator/memory_turns.hpp"
#include "policies/simulator/promised_queue.hpp"
#include "policies/wishes.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace vgpu::simulator {

namespace {

constexpr auto never = std::numeric_limits<double>::infinity();

policy::cluster_view make_cluster(const cluster_shape& shape) {
  policy::cluster_view out;
  out.nodes.reserve(shape.nodes);
  for (std::size_t n = 0; n < shape.nodes; ++n) {
    auto& node = out.nodes.emplace_back();
    node.name = node.host = node_name(n);
    for (std::uint32_t p = 0; p < shape.gpus_per_node; ++p)
      node.pgpus.push_back(
          {p, shape.memory, 0, 0, 0, true, "nvidia", "gpu", 0, 90});
  }
  return out;
}

policy::time_point point(double seconds) {
  return policy::time_point{std::chrono::duration_cast<policy::duration>(
      std::chrono::duration<double>{seconds})};
}

double seconds(policy::time_point x) {
  return std::chrono::duration<double>{x.time_since_epoch()}.count();
}

/// Something that will happen.
struct event {
  enum class kind {
    work_ends, // until its next idle phase, or for good
    idle_ends,
    idle_long, // it may give way
    copied,
    gives_up,
    turn_ends, // with memory that somebody waits for
    look       // for hot pGPUs
  };
  double at = 0;
  std::uint64_t order = 0; // of those at the same time
  kind what = kind::look;
  std::uint32_t who = 0;
  std::uint32_t version = 0;

  bool operator>(const event& x) const {
    return std::tie(at, order) > std::tie(x.at, x.order);
  }
};

class simulation {
public:
  simulation(const std::vector<arrival>& trace,
             const simulation_options& options)
      : trace_(trace), options_(options), extent_(make_extent(options.cluster)),
        index_(make_cluster(options.cluster), options.placement, options.own),
        devices_(options.cluster.nodes * options.cluster.gpus_per_node,
                 options.sharing, [this](std::uint32_t i) { reckon(i); }),
        guests_(trace.size()), turns_(options.rotation, trace.size()),
        on_node_(options.cluster.nodes) {
    for (std::size_t n = 0; n < options.cluster.nodes; ++n)
      nodes_[node_name(n)] = static_cast<std::uint32_t>(n);
    auto bytes = static_cast<double>(options.cluster.memory);
    bytes_ = bytes * static_cast<double>(options.cluster.nodes) *
             options.cluster.gpus_per_node;
    if (turns_.on())
      queue_ = promised_queue{options.rotation.promised * bytes_};
  }

  outcome run() {
    std::size_t next = 0;
    for (;;) {
      drop_moot();
      auto coming = next < trace_.size() ? trace_[next].at : never;
      auto due = events_.empty() ? never : events_.top().at;
      auto when = std::min(coming, due);
      if (released_ && when > now_)
        serve_queue();
      else if (when == never)
        break;
      else if (advance(when); due <= coming)
        happens();
      else
        arrives(static_cast<std::uint32_t>(next++));
      if (next == trace_.size() && !last_came_) {
        last_came_ = true;
        out_.while_coming = out_.over_time.mean();
      }
    }
    return finish();
  }

private:
  using rank = policy::queue_rank;
  using kind = event::kind;

  static policy::cluster_extent make_extent(const cluster_shape& x) {
    return {x.memory, x.nodes == 0 ? 0 : std::size_t{x.gpus_per_node}};
  }

  // -- time -------------------------------------------------------------------

  void advance(double to) {
    to = std::max(to, now_);
    out_.over_time.add(now_, to,
                       {std::max(devices_.busy(), 0.0), promised_ / bytes_,
                        static_cast<double>(queue_.size())});
    now_ = to;
  }

  void expect(double at, kind what, std::uint32_t who, std::uint32_t version) {
    events_.push({at, order_++, what, who, version});
  }

  /// What will not happen any more must not make the time longer.
  bool is_moot(const event& x) const {
    const auto& g = guests_[x.who];
    switch (x.what) {
    case kind::work_ends:
      return x.version != g.version;
    case kind::idle_long:
      return !g.idle || g.phase != x.version ||
             g.stage != guest_stage::placed || g.copy != guest_copy::none;
    case kind::gives_up:
      return g.stage != guest_stage::waiting || g.had_place;
    case kind::look:
      return devices_.overloaded() == 0;
    case kind::turn_ends:
      return x.version != turns_version_;
    case kind::idle_ends:
    case kind::copied:
      return false;
    }
    return false;
  }

  void drop_moot() {
    while (!events_.empty() && is_moot(events_.top())) {
      looking_ = looking_ && events_.top().what != kind::look;
      events_.pop();
    }
  }

  void happens() {
    auto x = events_.top();
    events_.pop();
    switch (x.what) {
    case kind::work_ends:
      return work_ends(x.who);
    case kind::idle_ends:
      return idle_ends(x.who);
    case kind::idle_long:
      idle_.emplace(guests_[x.who].idle_from, x.who);
      return reclaim();
    case kind::copied:
      return copied(x.who);
    case kind::gives_up:
      return give_up(x.who);
    case kind::turn_ends:
      return take_turns();
    case kind::look:
      return look();
    }
  }

  // -- the queue --------------------------------------------------------------

  rank rank_of(std::uint32_t i) const {
    auto urgent = guests_[i].had_place;
    if (!turns_.on())
      return {urgent, trace_[i].wishes.priority, i};
    const auto& past = turns_.of(i);
    urgent = urgent && !past.preempted;
    return {urgent, trace_[i].wishes.priority, i,
            urgent ? policy::time_point{} : point(past.queued_at)};
  }

  void arrives(std::uint32_t i) {
    const auto& x = trace_[i];
    if (!policy::admit_within(extent_, wishes_of(i))) {
      guests_[i].stage = guest_stage::gone;
      ++out_.refused;
      return;
    }
    if (turns_.on())
      turns_.of(i).queued_at = now_;
    guests_[i].left = x.idle.empty() ? x.runs : x.idle.front().after;
    waits(i);
    if (guests_[i].stage == guest_stage::waiting &&
        x.wishes.wait_ms != control::wait_for_ever)
      expect(now_ + x.wishes.wait_ms / 1e3, kind::gives_up, i, 0);
  }

  /// Asks for a place: at once where it is the last of the queue, for whom what
  /// is kept stays as it is.
  void waits(std::uint32_t i) {
    auto& g = guests_[i];
    g.stage = guest_stage::waiting;
    g.asked_at = now_;
    auto at = rank_of(i);
    auto last = queue_.is_last(at);
    queue_.insert(at, lane_of(i), g.had_place ? 0 : bytes_of(i));
    if (!last || released_) {
      released_ = true;
    } else if (try_place(i)) {
      queue_.erase(at, lane_of(i)); // its rank is another one now
    } else {
      keep_for(i);
      queue_.settle();
      take_turns();
    }
  }

  double bytes_of(std::uint32_t i) const {
    return static_cast<double>(trace_[i].wishes.memory) * trace_[i].wishes.gpus;
  }

  /// Once around, in order. Whoever finds nothing has a place kept.
  void serve_queue() {
    released_ = false;
    index_.let_go();
    queue_.settle();
    // Who asks for no less than one who found nothing finds nothing either.
    auto least_failed = std::numeric_limits<std::uint64_t>::max();
    queue_.serve([&](const rank& x) -> waiting_queue::verdict {
      auto i = static_cast<std::uint32_t>(x.age);
      auto memory = trace_[i].wishes.memory;
      auto lane = lane_of(i);
      if (lane != 0 && memory >= least_failed)
        return {.open = lane};
      if (try_place(i))
        return {.placed = true};
      keep_for(i);
      if (lane == 0)
        return {};
      least_failed = std::min(least_failed, memory);
      return {.open = lane};
    });
    take_turns();
  }

  /// Four for each power of two of the memory of those who may have any pGPU.
  waiting_queue::lane lane_of(std::uint32_t i) const {
    const auto& x = trace_[i].wishes;
    if (!is_plain(x) || x.memory < 4)
      return 0;
    auto power = static_cast<std::uint32_t>(std::bit_width(x.memory)) - 1;
    return power * 4 + static_cast<std::uint32_t>(x.memory >> (power - 2) & 3);
  }

  /// Of those, all may have the same pGPUs.
  static bool is_plain(const control::specification& x) {
    return x.gpus == 1 && x.node.empty() && x.pgpu < 0 && x.backend.empty() &&
           x.capability == 0 && x.where != control::locality::local_only &&
           !x.beside && !x.apart;
  }

  void keep_for(std::uint32_t i) {
    if (trace_[i].wishes.memory == 0)
      return;
    if (auto where = index_.place_to_keep(wishes_of(i)))
      index_.keep(*where);
  }

  void give_up(std::uint32_t i) {
    auto& g = guests_[i];
    queue_.erase(rank_of(i), lane_of(i));
    g.waited += now_ - g.asked_at;
    g.stage = guest_stage::gone;
    ++out_.gave_up;
    released_ = true; // what was kept for it
  }

  policy::demand wishes_of(std::uint32_t i) const {
    return policy::demand_of(trace_[i].wishes, trace_[i].host);
  }

  policy::demand demand_of(std::uint32_t i) {
    auto out = wishes_of(i);
    const auto& x = trace_[i].wishes;
    if (guests_[i].had_place)
      out.previous = guests_[i].where;
    auto place_of = [&](vgpu_id other, std::vector<policy::place>& to) {
      if (other && other.value <= guests_.size() &&
          guests_[other.value - 1].stage == guest_stage::placed)
        to.push_back(guests_[other.value - 1].where);
    };
    place_of(x.beside, out.beside);
    place_of(x.apart, out.apart);
    if (x.group != 0)
      for (auto other : groups_[x.group])
        if (trace_[other].host == trace_[i].host)
          out.affinity.push_back(guests_[other].where);
    return out;
  }

  std::variant<policy::place, policy::no_place>
  decide(const policy::demand& what) {
    auto began = std::chrono::steady_clock::now();
    auto found = index_.choose(what);
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - began;
    ++out_.decisions;
    out_.decision_seconds += took.count();
    return found;
  }

  bool try_place(std::uint32_t i) {
    auto what = demand_of(i);
    auto found = decide(what);
    auto* where = std::get_if<policy::place>(&found);
    if (where == nullptr)
      return false;
    auto& g = guests_[i];
    if (nodes_.contains(trace_[i].host) && !g.had_place) {
      ++out_.could_be_local;
      out_.local += where->node == trace_[i].host ? 1 : 0;
    }
    g.waited += now_ - g.asked_at;
    auto again = std::exchange(g.had_place, true);
    settle(i, std::move(*where));
    if (again) {
      begin_copy(i, guest_copy::restore);
      return true;
    }
    first_waits_.push_back(g.waited);
    queue_.promise(bytes_of(i));
    has_turn(i);
    work(i);
    return true;
  }

  // -- on a place -------------------------------------------------------------

  std::uint32_t number(std::uint32_t node, std::uint32_t ordinal) const {
    return node * options_.cluster.gpus_per_node + ordinal;
  }

  template <class F>
  void for_pgpus(const guest& g, F f) {
    for (auto ordinal : g.where.pgpus)
      f(number(g.node, ordinal));
  }

  void settle(std::uint32_t i, policy::place where) {
    auto& g = guests_[i];
    const auto& x = trace_[i].wishes;
    g.node = nodes_.at(where.node);
    g.where = std::move(where);
    g.stage = guest_stage::placed;
    g.since = now_;
    if (turns_.on()) {
      turns_.of(i).got_place = now_;
      turns_.of(i).preempted = false;
    }
    count(i, 1);
    for_pgpus(g, [&](std::uint32_t p) {
      devices_.add(p, i, {x.share, x.limit, x.priority});
      in_use_ += devices_.users(p) == 1 ? 1 : 0;
    });
    out_.most_pgpus = std::max(out_.most_pgpus, in_use_);
    out_.most_on_a_node = std::max(out_.most_on_a_node, on_node_[g.node]);
  }

  void leave(std::uint32_t i) {
    auto& g = guests_[i];
    advance_work(i);
    if (turns_.on()) {
      turns_.stays(i);
      had_memory_ +=
          trace_[i].wishes.memory != 0 ? now_ - turns_.of(i).got_place : 0;
    }
    for_pgpus(g, [&](std::uint32_t p) {
      devices_.remove(p, i);
      in_use_ -= devices_.users(p) == 0 ? 1 : 0;
    });
    g.rate = 0;
    ++g.version;
    count(i, -1);
    released_ = true;
  }

  /// Enters it in the books, or strikes it out.
  void count(std::uint32_t i, int times) {
    const auto& g = guests_[i];
    const auto& x = trace_[i].wishes;
    auto what = wishes_of(i);
    times > 0 ? index_.take(g.where, what) : index_.give(g.where, what);
    promised_ += times * static_cast<double>(x.memory) * x.gpus;
    on_node_[g.node] += static_cast<std::size_t>(times);
    if (x.group != 0 && times > 0)
      groups_[x.group].insert(i);
    else if (x.group != 0)
      groups_[x.group].erase(i);
  }

  void advance_work(std::uint32_t i) {
    auto& g = guests_[i];
    g.left = std::max(0.0, g.left - g.rate * (now_ - g.since));
    g.since = now_;
  }

  void want(std::uint32_t i, double load) {
    for_pgpus(guests_[i], [&](std::uint32_t p) { devices_.want(p, i, load); });
  }

  /// What it gets may have changed, and so when its work ends.
  void reckon(std::uint32_t i) {
    auto& g = guests_[i];
    auto got = never;
    for_pgpus(g, [&](std::uint32_t p) {
      got = std::min(got, devices_.granted(p, i));
    });
    auto rate = got / trace_[i].load;
    if (rate == g.rate)
      return;
    advance_work(i);
    g.rate = rate;
    ++g.version;
    if (rate > 0)
      expect(now_ + g.left / rate, kind::work_ends, i, g.version);
  }

  void work(std::uint32_t i) {
    guests_[i].since = now_;
    want(i, trace_[i].load);
    if (options_.balance_every && !looking_ && devices_.overloaded() != 0) {
      looking_ = true;
      expect(now_ + *options_.balance_every, kind::look, 0, 0);
    }
  }

  void work_ends(std::uint32_t i) {
    auto& g = guests_[i];
    const auto& x = trace_[i];
    advance_work(i);
    if (g.phase >= x.idle.size())
      return done(i);
    want(i, 0);
    g.idle = true;
    g.idle_from = now_;
    auto lasts = x.idle[g.phase].lasts;
    expect(now_ + lasts, kind::idle_ends, i, g.phase);
    auto after = x.wishes.idle_after_ms / 1e3;
    if (x.wishes.idle_after_ms != control::keep_when_idle && after < lasts)
      expect(now_ + after, kind::idle_long, i, g.phase);
  }

  void idle_ends(std::uint32_t i) {
    auto& g = guests_[i];
    const auto& x = trace_[i];
    g.idle = false;
    idle_.erase({g.idle_from, i});
    ++g.phase;
    if (g.phase < x.idle.size()) {
      g.left = x.idle[g.phase].after;
    } else {
      g.left = x.runs;
      for (const auto& phase : x.idle)
        g.left -= phase.after;
      g.left = std::max(g.left, 0.0);
    }
    if (g.stage == guest_stage::suspended)
      waits(i);
    else if (g.stage == guest_stage::placed && g.copy == guest_copy::none)
      work(i);
  }

  void done(std::uint32_t i) {
    auto& g = guests_[i];
    const auto& x = trace_[i];
    leave(i);
    queue_.promise(-bytes_of(i));
    g.stage = guest_stage::gone;
    ++out_.finished;
    auto idle = std::accumulate(
        x.idle.begin(), x.idle.end(), 0.0,
        [](double sum, const auto& phase) { return sum + phase.lasts; });
    // What it slept through in a queue or while it was copied counts.
    auto took = std::max(now_ - x.at - idle, x.runs);
    slowdowns_.push_back(took / x.runs);
    speeds_.push_back(x.runs / took);
  }

  // -- copies: suspended, brought back, moved ---------------------------------

  double copy_time(std::uint32_t i) const {
    return bytes_of(i) / options_.copy_rate;
  }

  void begin_copy(std::uint32_t i, guest_copy what) {
    auto& g = guests_[i];
    want(i, 0);
    g.copy = what;
    turns_.stays(i);
    expect(now_ + copy_time(i), kind::copied, i, 0);
  }

  void copied(std::uint32_t i) {
    auto& g = guests_[i];
    auto what = std::exchange(g.copy, guest_copy::none);
    if (what == guest_copy::suspend)
      return suspended(i);
    if (what == guest_copy::preempt)
      return made_room(i);
    if (what == guest_copy::migrate)
      arrive_there(i);
    else
      is_back(i);
    may_leave(i);
    if (!g.idle)
      work(i);
    else if (ripe(i))
      idle_.emplace(g.idle_from, i);
    reclaim();
  }

  bool ripe(std::uint32_t i) const {
    auto after = trace_[i].wishes.idle_after_ms;
    return after != control::keep_when_idle &&
           guests_[i].idle_from + after / 1e3 <= now_;
  }

  /// The manager is told of all that may give way; of those that are ripe, only
  /// the longest idle can be chosen.
  void reclaim() {
    std::vector<policy::idle_session> view;
    for (auto i = idle_.begin();
         i != idle_.end() && view.size() < options_.reclaim.at_once; ++i)
      view.push_back({session_id{i->second + std::uint64_t{1}},
                      point(i->first),
                      policy::duration{0},
                      {}});
    auto chosen =
        policy::choose_idle(view, suspending_, point(now_), options_.reclaim);
    for (auto id : chosen.now) {
      auto i = static_cast<std::uint32_t>(id.value - 1);
      idle_.erase({guests_[i].idle_from, i});
      ++suspending_;
      begin_copy(i, guest_copy::suspend);
    }
  }

  void suspended(std::uint32_t i) {
    --suspending_;
    ++out_.reclaimed;
    leave(i);
    guests_[i].stage = guest_stage::suspended;
    if (!guests_[i].idle)
      waits(i);
    reclaim();
  }

  // -- turns with memory ------------------------------------------------------

  /// Its turn begins.
  void has_turn(std::uint32_t i) {
    if (!turns_.on())
      return;
    turns_.of(i).since = now_;
    may_leave(i);
  }

  void is_back(std::uint32_t i) {
    if (!turns_.on())
      return;
    auto& past = turns_.of(i);
    past.since = now_;
    if (past.left_in <= 0)
      return;
    past.swapped = past.left_in + copy_time(i);
    swapping_ += copy_time(i);
    past.left_in = 0;
  }

  void may_leave(std::uint32_t i) {
    const auto& x = trace_[i].wishes;
    if (!turns_.on() || x.memory == 0)
      return;
    const auto& g = guests_[i];
    const auto& past = turns_.of(i);
    policy::resident out;
    out.id = session_id{i + std::uint64_t{1}};
    out.where = g.where;
    out.memory = x.memory;
    out.priority = x.priority;
    out.since = point(past.since);
    out.swap = point(past.swapped).time_since_epoch();
    out.state = static_cast<std::uint64_t>(bytes_of(i));
    turns_.may_leave(i, g.node, std::move(out));
  }

  /// Room is made for those who wait, in order, where turns are over.
  void take_turns() {
    if (!turns_.on())
      return;
    auto soonest = never;
    // Who asks for no less than one of no lower priority for whom nobody can
    // leave waits no shorter.
    auto least_failed = std::numeric_limits<std::uint64_t>::max();
    queue_.serve_promised([&](const rank& at) -> waiting_queue::verdict {
      if (turns_.at_limit())
        return {.enough = true}; // whoever is done asks anew
      auto i = static_cast<std::uint32_t>(at.age);
      const auto& x = trace_[i].wishes;
      auto lane = lane_of(i);
      if (x.memory == 0 || turns_.is_awaited_by(i))
        return {};
      auto ordered = lane != 0 && at.fresh;
      if (ordered && x.memory >= least_failed)
        return {.open = lane};
      auto room =
          turns_.make_room(index_, demand_of(i), x.priority, point(now_));
      for (auto id : room.leave)
        make_leave(static_cast<std::uint32_t>(id.value - 1), i);
      if (!room.leave.empty())
        return {};
      if (room.look_again)
        soonest = std::min(soonest, seconds(*room.look_again));
      if (!ordered)
        return {};
      least_failed = std::min(least_failed, x.memory);
      return {.open = lane};
    });
    look_at_turns(soonest);
  }

  void look_at_turns(double when) {
    // Rounding must not make it look too early for ever.
    constexpr double after = 1e-6;
    ++turns_version_;
    if (when < never)
      expect(when + after, kind::turn_ends, 0, turns_version_);
  }

  void make_leave(std::uint32_t i, std::uint32_t for_whom) {
    idle_.erase({guests_[i].idle_from, i});
    turns_.leaves(i, for_whom, guests_[i].where);
    begin_copy(i, guest_copy::preempt);
  }

  void made_room(std::uint32_t i) {
    auto& g = guests_[i];
    auto& past = turns_.of(i);
    turns_.has_left(i);
    ++out_.preempted;
    leave(i);
    g.stage = guest_stage::suspended;
    past.preempted = true;
    past.queued_at = now_;
    past.left_in = copy_time(i);
    swapping_ += past.left_in;
    if (!g.idle)
      waits(i);
  }

  // -- hot pGPUs --------------------------------------------------------------

  /// Whether a look could find anything: it is made often, and a view of
  /// everything takes its time.
  bool may_be_hot() const {
    auto sum = 0.0;
    auto most = 0.0;
    auto pgpus = options_.cluster.nodes * options_.cluster.gpus_per_node;
    for (std::uint32_t p = 0; p < pgpus; ++p) {
      sum += devices_.wanted(p);
      most = std::max(most, devices_.wanted(p));
    }
    return most > 1 &&
           most > sum / static_cast<double>(pgpus) + options_.balance.threshold;
  }

  void look() {
    expect(now_ + *options_.balance_every, kind::look, 0, 0);
    if (moving_)
      return;
    auto move = may_be_hot()
                    ? policy::choose_move(view_for_balance(), point(now_),
                                          options_.balance)
                    : std::nullopt;
    if (!hot_.stays(move, options_.balance_looks))
      return;
    moving_ = true;
    target_ = std::move(move->to);
    begin_copy(static_cast<std::uint32_t>(move->vgpu.value - 1),
               guest_copy::migrate);
  }

  policy::balance_view view_for_balance() {
    policy::balance_view out{index_.cluster(), {}};
    for (auto& node : out.cluster.nodes)
      for (auto& pgpu : node.pgpus)
        pgpu.held = pgpu.reserved;
    for (std::uint32_t i = 0; i < guests_.size(); ++i) {
      const auto& g = guests_[i];
      if (g.stage != guest_stage::placed)
        continue;
      auto& to = out.vgpus.emplace_back();
      to.id = vgpu_id{i + std::uint64_t{1}};
      to.where = g.where;
      to.wishes = demand_of(i);
      to.bytes = trace_[i].wishes.memory;
      to.load = g.idle ? 0 : std::min(trace_[i].load, trace_[i].wishes.limit);
      to.movable = g.copy == guest_copy::none && to.wishes.affinity.empty() &&
                   (to.bytes == 0 || queue_.size() == 0);
      if (g.was_moved)
        to.moved = point(g.moved_at);
    }
    return out;
  }

  /// Its memory is there, if there is still room.
  void arrive_there(std::uint32_t i) {
    moving_ = false;
    auto& g = guests_[i];
    auto what = demand_of(i);
    what.previous = {};
    what.node = target_.node;
    what.pgpu = static_cast<std::int32_t>(target_.pgpus.front());
    auto found = decide_there(what);
    if (!found)
      return;
    leave(i);
    settle(i, target_);
    if (turns_.on())
      turns_.of(i).since = now_;
    g.was_moved = true;
    g.moved_at = now_;
    ++out_.migrations;
  }

  /// The move was chosen; whether it can still be made no policy is asked.
  bool decide_there(const policy::demand& what) const {
    for (const auto& node : index_.cluster().nodes)
      if (node.name == what.node)
        for (const auto& pgpu : node.pgpus)
          if (policy::may_take(node, pgpu, what))
            return true;
    return false;
  }

  // -- the end ----------------------------------------------------------------

  outcome finish() {
    std::vector<double> waits;
    for (const auto& g : guests_)
      if (g.had_place || g.stage != guest_stage::gone || g.waited > 0)
        waits.push_back(g.stage == guest_stage::waiting
                            ? g.waited + now_ - g.asked_at
                            : g.waited);
    for (const auto& g : guests_)
      if (!g.had_place && g.waited + now_ - g.asked_at > 0 &&
          (g.stage == guest_stage::waiting || g.waited > 0))
        first_waits_.push_back(g.stage == guest_stage::waiting
                                   ? g.waited + now_ - g.asked_at
                                   : g.waited);
    out_.never = queue_.size();
    out_.ended = now_;
    // All came at once.
    if (trace_.back().at <= 0)
      out_.while_coming = out_.over_time.mean();
    out_.waiting = distribution_of(std::move(waits));
    out_.first_waiting = distribution_of(std::move(first_waits_));
    out_.slowdown = distribution_of(std::move(slowdowns_));
    out_.swapping = had_memory_ > 0 ? swapping_ / had_memory_ : 0;
    out_.fairness = jain_index(speeds_);
    return std::move(out_);
  }

  const std::vector<arrival>& trace_;
  const simulation_options& options_;
  policy::cluster_extent extent_;
  policy::placement_index index_;
  shared_devices devices_;
  std::vector<guest> guests_;
  memory_turns turns_;
  std::vector<std::size_t> on_node_;
  std::unordered_map<std::string, std::uint32_t> nodes_;
  std::unordered_map<std::uint64_t, std::set<std::uint32_t>> groups_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;
  promised_queue queue_;
  std::uint32_t turns_version_ = 0; // of the last look for whose turn is over
  double swapping_ = 0;             // seconds
  double had_memory_ = 0;
  bool last_came_ = false;
  bool released_ = false; // since the queue was looked at
  std::set<std::pair<double, std::uint32_t>>
      idle_; // long enough, by since when
  std::size_t suspending_ = 0;
  bool looking_ = false;
  bool moving_ = false;
  policy::place target_; // of the move
  policy::hot_spot hot_;
  double promised_ = 0; // bytes
  double bytes_ = 0;    // of the cluster
  std::size_t in_use_ = 0;
  std::vector<double> slowdowns_;
  std::vector<double> first_waits_;
  std::vector<double> speeds_;
  outcome out_;
};

} // namespace

distribution distribution_of(std::vector<double> all) {
  if (all.empty())
    return {};
  std::sort(all.begin(), all.end());
  auto at = [&](double part) {
    auto rank = std::ceil(part * static_cast<double>(all.size()));
    return all[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  auto sum = std::accumulate(all.begin(), all.end(), 0.0);
  constexpr double most_of_all = 0.95;
  constexpr double nearly_all = 0.99;
  return {sum / static_cast<double>(all.size()), at(most_of_all),
          at(nearly_all), all.back()};
}

double jain_index(const std::vector<double>& all) {
  auto sum = 0.0;
  auto squares = 0.0;
  for (auto x : all) {
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(all.size()) * squares)
                     : 1;
}

outcome simulate(const std::vector<arrival>& trace,
                 const simulation_options& options) {
  return simulation{trace, options}.run();
}

} // namespace vgpu::simulator
