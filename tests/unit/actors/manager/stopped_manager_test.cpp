// A manager that stood still, or was late, takes nobody for dead because of it.
#include "tests/unit/actors/manager_fixture.hpp"

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::take;

namespace {

struct crowd : cluster {
  std::vector<std::string> nodes;
  std::map<std::string, start_worker> orders;

  /// Adds nodes, each with a session.
  void fill(int count) {
    connect();
    for (auto i = 0; i < count; ++i) {
      nodes.push_back("n" + std::to_string(i));
      join(nodes.back());
      ask();
      auto order = ordered(nodes.back());
      BOOST_REQUIRE(order);
      orders.emplace(nodes.back(), *order);
      started(nodes.back(), *order);
      BOOST_REQUIRE(leased("c", 5));
    }
  }

  /// The process is stopped. When it continues, its timer is first.
  void stop_for(caf::timespan span) {
    leap(span);
    run();
  }

  /// Connects a node anew, with its worker.
  void come_back(const std::string& name, const std::string& peer) {
    auto x = inventory(name);
    x.sessions = {running(name, orders.at(name))};
    join(x, peer);
  }

  void nobody_moved() {
    BOOST_TEST(count("node-lost") == 0u);
    BOOST_TEST(count("session-replaced") == 0u);
    const auto now = status();
    BOOST_REQUIRE(!now["vgpus"].empty());
    for (const auto& vgpu : now["vgpus"])
      for (const auto& session : vgpu["sessions"])
        BOOST_TEST(session["epoch"] == 1);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(stopped_managers, crowd)

BOOST_AUTO_TEST_CASE(heartbeats_that_waited_are_heard_before_a_verdict) {
  fill(10);
  for (auto i = 0; i < 50; ++i) {
    stop_for(3s);
    // The messages are late, too.
    advance(300ms);
    live(300ms, nodes);
  }
  nobody_moved();
}

BOOST_AUTO_TEST_CASE(connections_that_ended_meanwhile_may_come_back) {
  fill(5);
  live(200ms, nodes);
  stop_for(4500ms);
  for (const auto& x : nodes)
    tell(chief, test::gone("n-" + x));
  advance(400ms);
  for (const auto& x : nodes)
    come_back(x, "n-" + x);
  live(2s, nodes);
  nobody_moved();
}

BOOST_AUTO_TEST_CASE(a_single_connection_that_ended_meanwhile_may_come_back) {
  fill(3);
  live(200ms, nodes);
  leap(4500ms);
  tell(chief, test::gone("n-n1"));
  live(300ms, {"n0", "n2"});
  come_back("n1", "n-n1");
  live(2s, nodes);
  nobody_moved();
}

BOOST_AUTO_TEST_CASE(a_node_that_died_meanwhile_is_lost) {
  fill(3);
  stop_for(3s);
  live(2s, {"n0", "n2"});
  BOOST_TEST(count("node-lost") == 1u);
  BOOST_TEST((ordered("n0") || ordered("n2")));
}

BOOST_AUTO_TEST_CASE(silence_of_most_nodes_is_doubted_once) {
  fill(3);
  live(1s, nodes);
  live(900ms, {"n0"});
  BOOST_TEST(count("node-lost") == 0u);
  live(300ms, {"n0"});
  BOOST_TEST(count("node-lost") == 2u);
}

BOOST_AUTO_TEST_CASE(a_cut_network_that_heals_moves_nobody) {
  fill(5);
  live(1s, nodes);
  advance(800ms);
  live(1s, nodes);
  nobody_moved();
  // Each silence is doubted anew.
  advance(800ms);
  live(1s, nodes);
  nobody_moved();
}

BOOST_AUTO_TEST_CASE(a_client_may_come_back_after_the_managers_own_pause) {
  fill(1);
  live(200ms, nodes);
  tell(chief, test::gone("c"));
  stop_for(20s);
  live(500ms, nodes);
  BOOST_TEST(count("session-closed") == 0u);
  say("c2", "client/c", hello{1, 1, "t", role::client});
  const auto& order = orders.at("n0");
  lease mine;
  mine.session = order.session;
  mine.vgpu = order.vgpu;
  mine.epoch = order.epoch;
  mine.token = order.token;
  mine.node = "n0";
  say("c2", "client/c", adoption(mine), 6);
  BOOST_TEST(leased("c2", 6).has_value());
  tell(chief, test::gone("c2"));
  live(5100ms, nodes);
  BOOST_TEST(count("session-closed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_worker_may_start_during_the_managers_own_pause) {
  join("a");
  connect();
  ask();
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  stop_for(20s);
  started("a", *order);
  BOOST_TEST(leased("c", 5).has_value());
}

BOOST_AUTO_TEST_CASE(nodes_may_come_back_during_the_managers_own_pause) {
  fill(2);
  restart();
  stop_for(20s);
  for (const auto& x : nodes)
    come_back(x, "n-" + x);
  connect();
  live(500ms, nodes);
  nobody_moved();
}

BOOST_AUTO_TEST_SUITE_END()
