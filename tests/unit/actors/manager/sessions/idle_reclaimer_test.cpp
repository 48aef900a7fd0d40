// Idle sessions are suspended until their next call.
#include "tests/unit/actors/movers.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::movers;

namespace {

struct idlers : movers {
  static specification lazy(std::uint64_t memory = 0) {
    specification out;
    out.idle_after_ms = 1'000;
    out.memory = memory;
    return out;
  }
  /// Opens sessions on a node.
  std::vector<lease> open_many(const std::string& node, unsigned many) {
    std::vector<lease> all;
    for (auto i = 0u; i < many; ++i) {
      auto spec = lazy();
      spec.node = node;
      all.push_back(open(node, spec));
    }
    return all;
  }
  /// Sends a heartbeat in which all these sessions have been idle for so long.
  void tell_idle(const std::string& node, const std::vector<lease>& all,
                 std::chrono::milliseconds already) {
    node_beat beat{node, 1, {}, {}};
    for (const auto& x : all) {
      session_load load{x.session, x.epoch};
      load.idle_ms = static_cast<std::uint64_t>(already.count());
      beat.sessions.push_back(load);
    }
    say("n-" + node, "node/" + node, beat);
  }
  std::size_t leaving() {
    std::size_t told = 0;
    while (pausing())
      ++told;
    return told;
  }
  /// Sends heartbeats in which the session stays idle, while time passes.
  void idle(const lease& x, std::chrono::milliseconds already,
            std::chrono::milliseconds span) {
    for (auto spent = 0ms; spent < span; spent += 50ms) {
      session_load load{x.session, x.epoch};
      load.idle_ms = static_cast<std::uint64_t>((already + spent).count());
      say("n-a", "node/a", node_beat{"a", 1, {load}, {}});
      advance(50ms);
    }
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(idleness, idlers)

BOOST_AUTO_TEST_CASE(an_idle_session_is_suspended_until_its_next_call) {
  join("a");
  auto x = open("a", lazy());
  idle(x, 0ms, 900ms);
  BOOST_TEST(!pausing());
  idle(x, 900ms, 200ms);
  auto order = pausing();
  BOOST_REQUIRE(order);
  BOOST_TEST((order->session == x.session));
  gave_state(x);
  BOOST_TEST(state() == "suspended");
  BOOST_TEST(count("session-reclaimed") == 1u);
  say("c", "client/c", wake_session{x.session});
  auto next = comes_up("a");
  runs_again(next);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(sessions_with_calls_or_without_a_limit_stay) {
  join("a");
  auto x = open("a", lazy());
  for (auto i = 0; i < 5; ++i)
    idle(x, 0ms, 900ms);
  BOOST_TEST(!pausing());
  say("c", "client/c", close_session{x.session, x.epoch, ""});
  auto kept = open("a");
  idle(kept, 1h, 5s);
  BOOST_TEST(!pausing());
}

BOOST_AUTO_TEST_CASE(a_suspended_sessions_memory_is_for_others) {
  join("a"); // 4 GiB
  auto x = open("a", lazy(3 * test::gib));
  ask(lazy(3 * test::gib), "c", 6);
  BOOST_TEST(!ordered("a"));
  idle(x, 1s, 100ms);
  BOOST_REQUIRE(pausing());
  gave_state(x);
  auto other = ordered("a");
  BOOST_REQUIRE(other);
  BOOST_TEST((other->session != x.session));
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_suspended_is_asked_later) {
  join("a");
  auto x = open("a", lazy());
  idle(x, 1s, 100ms);
  BOOST_REQUIRE(pausing());
  say("c", "client/c",
      paused{x.session, x.epoch, "a variable is elsewhere", 0, 0});
  BOOST_TEST(state() == "running");
  idle(x, 1s, 29s);
  BOOST_TEST(!pausing());
  idle(x, 30s, 2s);
  BOOST_TEST(pausing().has_value());
}

BOOST_AUTO_TEST_CASE(nodes_suspend_sessions_independently) {
  join("a");
  join("b");
  auto here = open_many("a", 6);
  auto there = open_many("b", 6);
  tell_idle("a", here, 2s);
  advance(10ms);
  BOOST_TEST(leaving() == 4u);
  // No session of the first node is suspended yet.
  tell_idle("b", there, 2s);
  advance(10ms);
  BOOST_TEST(leaving() == 4u);
  tell_idle("a", here, 2s);
  tell_idle("b", there, 2s);
  advance(10ms);
  BOOST_TEST(leaving() == 0u);
  // A suspended session lets the next one of its node be suspended.
  gave_state(here[0]);
  advance(10ms);
  BOOST_TEST(leaving() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
