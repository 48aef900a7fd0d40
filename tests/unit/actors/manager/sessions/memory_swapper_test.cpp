// More memory is promised than exists, and sessions that work take turns with
// it.
#include "tests/unit/actors/manager_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <set>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

namespace {

/// Clients and a node that follow their orders at once, and programs that
/// always call.
struct sharers : cluster {
  static constexpr auto turn = 2s;
  std::map<std::uint64_t, lease> running; // by session
  std::map<std::uint64_t, running_session> workers;
  std::map<std::uint64_t, lease> away; // last leases of suspended sessions
  std::map<std::uint64_t, memory_turns> turns;
  std::map<std::uint64_t, caf::timespan> since;       // a turn's begin or end
  std::map<std::uint64_t, specification> constraints; // of unanswered requests
  specification wished;                               // the latest request's
  caf::timespan passed{0};
  std::map<std::uint64_t, caf::timespan> had;
  std::set<std::uint64_t> refusing; // sessions that cannot be suspended
  double left_in = 20;              // ms that clients report
  double back_in = 30;
  std::size_t most = 0;

  explicit sharers(double promised, double swaps = 0.1) : cluster{false} {
    overcommit = promised;
    swapped_part = swaps;
    start();
    join("a"); // 4 GiB
    connect();
  }

  void ask_for(std::uint64_t memory, std::int32_t priority = 0) {
    specification spec;
    spec.memory = memory;
    spec.priority = priority;
    wished = spec;
    constraints[++asked_] = spec;
    ask(spec, "c", asked_);
    serve();
  }

  void serve() {
    for (auto some = true; some;) {
      some = false;
      while (auto order = ordered("a")) {
        workers[order->session.value] = test::cluster::running("a", *order);
        started("a", *order);
        some = true;
      }
      while (auto got = take<lease>(out, "c")) {
        auto asked = constraints.erase(got->second) != 0;
        leased(got->first, asked);
        some = true;
      }
      while (auto order = take<pause_session>(out, "c")) {
        leaves(order->first);
        some = true;
      }
    }
    most = std::max(most, running.size());
  }

  void leased(const lease& x, bool asked) {
    auto id = x.session.value;
    if (!running.contains(id) && !away.contains(id) && !asked) {
      // The client does not know this program.
      BOOST_ERROR("a lease that was not requested");
      return;
    }
    if (auto known = running.find(id); away.contains(id)
                                           ? away.at(id).epoch >= x.epoch
                                           : known != running.end())
      return; // already known
    auto back = away.erase(id) != 0;
    running[id] = x;
    turns[id].preempted = false;
    since[id] = passed;
    if (!back)
      return;
    turns[id].back_in_ms = 30;
    say("c", "client/c", restored{x.session, x.epoch, gib, back_in});
  }

  void leaves(const pause_session& x) {
    auto id = x.session.value;
    auto refused = refusing.contains(id);
    if (!refused)
      takes_state(x);
    say("c", "client/c",
        paused{x.session, x.epoch, refused ? "a variable is elsewhere" : "",
               refused ? 0 : gib, left_in, false});
    if (!refused)
      say("c", "client/c", wake_session{x.session}); // the next call
  }

  void takes_state(const pause_session& x) {
    auto id = x.session.value;
    BOOST_TEST_REQUIRE(running.contains(id));
    away[id] = running.at(id);
    running.erase(id);
    workers.erase(id);
    turns[id] = {x.turn_over, 0, 20, 0};
    since[id] = passed;
  }

  /// Replaces the manager, and has nodes and clients report to the next one.
  void next_manager(bool with_its_store) {
    restart(with_its_store);
    comes_back();
    for (auto& [id, x] : running)
      takes_up(x, false);
    for (auto& [id, x] : away) {
      takes_up(x, true);
      say("c", "client/c", wake_session{x.session});
    }
    for (auto& [request, spec] : constraints)
      ask(spec, "c", request);
    serve();
  }

  void comes_back() {
    auto node = inventory("a");
    for (auto& [id, x] : workers)
      node.sessions.push_back(x);
    join(node);
    connect();
  }

  void takes_up(const lease& x, bool suspended) {
    auto told = adoption(x);
    auto id = x.session.value;
    told.specification = wished;
    told.suspended = suspended;
    told.turns = turns[id];
    told.turns.since_ms = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(passed -
                                                              since[id])
            .count());
    say("c", "client/c", told, 1000 + id);
  }

  /// Has sessions work while time passes.
  void work(caf::timespan span) {
    for (; span > 0s; span -= 50ms) {
      node_beat beat{"a", 1, {}, {}};
      for (auto& [id, x] : running) {
        beat.sessions.push_back({x.session, x.epoch});
        had[id] += 50ms;
      }
      say("n-a", "node/a", beat);
      advance(50ms);
      passed += 50ms;
      serve();
    }
  }

private:
  std::uint64_t asked_ = 100;
};

struct twice_promised : sharers {
  twice_promised() : sharers{3} {}
};
/// A turn is as long as suspending and resuming take.
struct half_swapped : sharers {
  half_swapped() : sharers{3, 0.5} {}
};
struct once_promised : sharers {
  once_promised() : sharers{1} {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(turns_with_memory)

BOOST_FIXTURE_TEST_CASE(eight_sessions_take_turns_in_room_for_three,
                        twice_promised) {
  for (auto i = 0; i < 8; ++i)
    ask_for(1228 << 20);
  BOOST_TEST(running.size() == 3u);
  work(60s);
  BOOST_TEST(most == 3u);
  BOOST_REQUIRE(had.size() == 8u);
  // Each has the memory for 3/8 of the time, up to the turns at the ends.
  for (auto& [id, time] : had)
    BOOST_TEST(
        (time >= 60s * 3 / 8 - 2 * turn && time <= 60s * 3 / 8 + 2 * turn));
  BOOST_TEST(count("session-preempted") >= 60u);
}

BOOST_FIXTURE_TEST_CASE(no_turn_lasts_for_ever_whatever_clients_report,
                        half_swapped) {
  ask_for(3 * gib);
  ask_for(3 * gib);
  back_in = std::numeric_limits<double>::quiet_NaN();
  for (auto given : {1e12, 1e300}) {
    left_in = given;
    work(10s);
    BOOST_REQUIRE(had.size() == 2u);
    auto before = had;
    work(std::chrono::minutes{10});
    for (auto& [id, time] : had)
      BOOST_TEST((time > before[id]));
  }
}

BOOST_FIXTURE_TEST_CASE(large_and_small_sessions_take_turns, twice_promised) {
  ask_for(3 * gib);
  ask_for(2 * gib);
  ask_for(2 * gib);
  ask_for(1 * gib);
  work(60s);
  BOOST_REQUIRE(had.size() == 4u);
  for (auto& [id, time] : had)
    BOOST_TEST((time >= 10s));
}

BOOST_FIXTURE_TEST_CASE(a_session_alone_is_not_suspended, twice_promised) {
  ask_for(3 * gib);
  work(30s);
  BOOST_TEST((had.begin()->second == 30s));
  BOOST_TEST(count("session-preempted") == 0u);
}

BOOST_FIXTURE_TEST_CASE(without_over_commitment_no_session_is_suspended,
                        once_promised) {
  ask_for(3 * gib);
  ask_for(3 * gib);
  work(30s);
  BOOST_TEST(had.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(promises_stay_within_the_allowed_factor,
                        twice_promised) {
  for (auto i = 0; i < 5; ++i)
    ask_for(3 * gib); // 12 GiB may be promised
  work(60s);
  BOOST_TEST(had.size() == 4u);
}

BOOST_FIXTURE_TEST_CASE(a_higher_priority_keeps_its_memory, twice_promised) {
  ask_for(3 * gib, 1);
  ask_for(3 * gib, 0);
  work(10s);
  BOOST_TEST(had.size() == 1u);
  ask_for(3 * gib, 2);
  work(10s);
  BOOST_TEST(had.size() == 2u);
  BOOST_TEST(running.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(another_yields_for_one_that_cannot_be_suspended,
                        twice_promised) {
  ask_for(2 * gib);
  ask_for(2 * gib);
  refusing.insert(running.begin()->first);
  ask_for(2 * gib);
  work(20s);
  BOOST_TEST((had.at(*refusing.begin()) == 20s));
  BOOST_REQUIRE(had.size() == 3u);
  for (auto& [id, time] : had)
    BOOST_TEST((time >= 6s));
  BOOST_TEST(count("move-failed") == 1u);
}

// -- many nodes ---------------------------------------------------------------

/// Each pGPU has one session whose turn with memory is over, and one that
/// waits.
struct crowded : cluster {
  std::map<std::uint64_t, std::pair<std::string, lease>> there; // by session

  crowded() : cluster{false} {
    overcommit = 3;
    start();
    connect();
  }
  void fill(const std::vector<std::string>& names, std::uint32_t pgpus) {
    for (const auto& name : names)
      join(name, pgpus);
    specification spec;
    spec.memory = 3 * gib;
    auto all = names.size() * pgpus;
    for (auto i = 0u; i < 2 * all; ++i)
      ask(spec, "c", 100 + i);
    for (const auto& name : names)
      while (auto order = ordered(name)) {
        started(name, *order);
        auto got = take<lease>(out, "c");
        BOOST_REQUIRE(got.has_value());
        there[order->session.value] = {name, got->first};
      }
    BOOST_TEST(there.size() == all);
    for (auto spent = 0ms; spent < 2500ms; spent += 50ms) {
      for (const auto& name : names) {
        node_beat beat{name, 1, {}, {}};
        for (const auto& [id, x] : there)
          if (x.first == name)
            beat.sessions.push_back({x.second.session, x.second.epoch});
        say("n-" + name, "node/" + name, beat);
      }
      advance(50ms);
    }
  }
  /// Returns how many sessions of each node were ordered to yield.
  std::map<std::string, unsigned> leaving() {
    std::map<std::string, unsigned> told;
    while (auto order = take<pause_session>(out, "c"))
      ++told[there.at(order->first.session.value).first];
    return told;
  }
};

BOOST_FIXTURE_TEST_CASE(nodes_take_turns_independently, crowded) {
  fill({"a", "b", "c"}, 2);
  BOOST_TEST((leaving() ==
              std::map<std::string, unsigned>{{"a", 2}, {"b", 2}, {"c", 2}}));
}

BOOST_FIXTURE_TEST_CASE(a_node_suspends_four_sessions_at_a_time, crowded) {
  fill({"a", "b"}, 6);
  BOOST_TEST(
      (leaving() == std::map<std::string, unsigned>{{"a", 4}, {"b", 4}}));
  // A suspended session lets the next one be suspended.
  auto x = there.begin()->second;
  say("c", "client/c", paused{x.second.session, x.second.epoch, "", gib, 20});
  advance(50ms);
  BOOST_TEST((leaving() == std::map<std::string, unsigned>{{x.first, 1}}));
}

// -- changes of the manager ---------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_suspension_that_no_manager_heard_of_ends,
                        twice_promised) {
  ask_for(3 * gib);
  ask_for(3 * gib);
  // The first session's turn is over, and the manager dies before it learns of
  // the suspension. The session's worker is about to end when the next manager
  // starts.
  std::optional<std::pair<pause_session, std::uint64_t>> order;
  for (auto i = 0; i < 100 && !order; ++i) {
    node_beat beat{"a", 1, {}, {}};
    for (auto& [id, x] : running)
      beat.sessions.push_back({x.session, x.epoch});
    say("n-a", "node/a", beat);
    advance(50ms);
    order = take<pause_session>(out, "c");
  }
  BOOST_REQUIRE(order);
  auto worker = workers.begin()->second;
  takes_state(order->first);
  restart();
  workers[worker.session.value] = worker;
  comes_back();
  workers.erase(worker.session.value);
  takes_up(away.begin()->second, true);
  say("c", "client/c", wake_session{worker.session});
  say("n-a", "node/a",
      worker_exited{worker.session, worker.epoch, "exit 0", true});
  for (auto& [request, spec] : constraints)
    ask(spec, "c", request);
  serve();
  work(20s);
  BOOST_REQUIRE(had.size() == 2u);
  for (auto& [id, time] : had)
    BOOST_TEST((time >= 6s));
}

BOOST_FIXTURE_TEST_CASE(a_request_that_waits_survives_the_manager,
                        twice_promised) {
  ask_for(3 * gib);
  ask_for(3 * gib);
  BOOST_REQUIRE(constraints.size() == 1u);
  // The client reconnects before the node.
  restart();
  connect();
  for (auto& [request, spec] : constraints)
    ask(spec, "c", request);
  BOOST_TEST(refused("c").empty());
  comes_back();
  takes_up(running.begin()->second, false);
  serve();
  work(20s);
  BOOST_TEST(had.size() == 2u);
  BOOST_TEST(constraints.empty());
}

BOOST_FIXTURE_TEST_CASE(turns_continue_with_the_next_manager, twice_promised) {
  // Managers change at a turn's beginning and in the middle of turns.
  for (auto i = 0; i < 8; ++i)
    ask_for(1228 << 20);
  for (auto i = 0; i < 20; ++i) {
    work(3s);
    next_manager(true);
  }
  BOOST_TEST(most == 3u);
  BOOST_REQUIRE(had.size() == 8u);
  for (auto& [id, time] : had)
    BOOST_TEST(
        (time >= 60s * 3 / 8 - 3 * turn && time <= 60s * 3 / 8 + 3 * turn));
}

BOOST_FIXTURE_TEST_CASE(turns_continue_with_another_leader, twice_promised) {
  for (auto i = 0; i < 8; ++i)
    ask_for(1228 << 20);
  for (auto i = 0; i < 20; ++i) {
    work(3s);
    next_manager(false);
  }
  BOOST_TEST(most == 3u);
  BOOST_REQUIRE(had.size() == 8u);
  for (auto& [id, time] : had)
    BOOST_TEST(
        (time >= 60s * 3 / 8 - 3 * turn && time <= 60s * 3 / 8 + 3 * turn));
}

BOOST_AUTO_TEST_SUITE_END()
