// Orders to migrate or suspend, and their answers, that are lost with a
// connection, a client or a manager.
#include "tests/unit/actors/movers.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::gib;
using test::movers;
using test::take;

namespace {

struct unheard : movers {
  /// Breaks the client's connection and connects it again. Messages on their
  /// way are lost.
  void reconnect() {
    tell(chief, test::gone("c"));
    connect();
    out.clear();
  }
  /// Claims a session whose client has its state, or whose worker's process is
  /// checkpointed.
  void claim_suspended(const lease& x, bool held = false,
                       bool process_checkpointed = false) {
    auto told = adoption(x);
    told.suspended = true;
    told.held = held;
    told.process_checkpointed = process_checkpointed;
    say("c", "client/c", told, 6);
  }
  void ends(const lease& x, const std::string& node = "a") {
    say("n-" + node, "node/" + node,
        worker_exited{x.session, x.epoch, "exit 0", true});
  }
  void join_with(const running_session& worker, const std::string& node = "a") {
    auto x = inventory(node);
    x.sessions.push_back(worker);
    join(x);
  }
  static running_session serves(const lease& x, const std::string& node = "a") {
    return {x.session, x.epoch, x.vgpu, x.pgpus, endpoints(node), 77};
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(unheard_movements, unheard)

BOOST_AUTO_TEST_CASE(a_migration_is_completed_after_a_lost_answer) {
  auto x = leaving();
  BOOST_REQUIRE(pausing());
  reconnect();
  claim_suspended(x);
  BOOST_TEST(!done(7));
  ends(x);
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  started("b", *order);
  runs_again(*leased("c", 6));
  BOOST_TEST(done(7));
  BOOST_TEST(node() == "b");
}

BOOST_AUTO_TEST_CASE(a_migration_continues_with_the_next_manager) {
  auto x = leaving();
  BOOST_REQUIRE(pausing());
  restart();
  join("b");
  // Its worker has not ended yet.
  join_with(serves(x));
  connect();
  claim_suspended(x);
  say("c", "client/c", wake_session{x.session});
  ends(x);
  live(1s, {"a", "b"});
  BOOST_TEST((ordered("a") || ordered("b")));
}

BOOST_AUTO_TEST_CASE(a_suspension_is_completed_after_a_lost_answer) {
  join("a");
  auto x = open("a");
  command(suspend_vgpu{x.vgpu, true}, 7);
  BOOST_REQUIRE(pausing());
  reconnect();
  claim_suspended(x, true);
  BOOST_TEST(done(7));
  BOOST_TEST(count("session-suspended") == 1u);
  ends(x);
  live(10s, {"a"});
  BOOST_TEST(state() == "suspended");
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(an_order_to_hold_a_session_is_repeated) {
  auto x = suspend(false);
  tell(chief, test::gone("c"));
  command(suspend_vgpu{x.vgpu, true}, 8);
  BOOST_TEST(done(8));
  connect();
  claim_suspended(x);
  auto order = pausing();
  BOOST_REQUIRE(order);
  BOOST_TEST((*order == pause_session{x.session, x.epoch, {}, true, true}));
  BOOST_TEST(state() == "suspended");
  // It is held, and the claim changes nothing.
  claim_suspended(x, true);
  BOOST_TEST(!pausing());
  command(resume_vgpu{x.vgpu}, 9);
  auto next = ordered("a");
  BOOST_REQUIRE(next);
  started("a", *next);
  runs_again(*leased("c", 6));
  BOOST_TEST(done(9));
}

BOOST_AUTO_TEST_CASE(a_lost_order_is_repeated) {
  join("a");
  auto x = open("a");
  command(suspend_vgpu{x.vgpu, true}, 7);
  auto first = pausing();
  BOOST_REQUIRE(first);
  reconnect();
  claim(x);
  auto again = pausing();
  BOOST_REQUIRE(again);
  BOOST_TEST((*again == *first));
  gave_state(x);
  // This is the answer to the first order.
  gave_state(x);
  BOOST_TEST(done(7));
  BOOST_TEST(state() == "suspended");
}

BOOST_AUTO_TEST_CASE(a_clients_death_ends_its_order) {
  join("a");
  auto x = open("a");
  command(suspend_vgpu{x.vgpu, false}, 7);
  BOOST_REQUIRE(pausing());
  tell(chief, test::gone("c"));
  connect("d");
  claim(x, "d");
  auto again = take<pause_session>(out, "d");
  BOOST_REQUIRE(again.has_value());
  say("d", "client/d",
      paused{x.session, x.epoch, "its worker does not answer", 0, 0});
  BOOST_TEST(refused("cmd").find("does not answer") != std::string::npos);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_migration_ends_though_the_report_of_it_was_lost) {
  auto x = leaving();
  gave_state(x);
  auto there = comes_up("b");
  // The session runs again, and the report of it is lost.
  reconnect();
  claim(there);
  BOOST_TEST(done(7));
  BOOST_TEST(count("session-migrated") == 1u);
  BOOST_TEST(node() == "b");
  command(migrate_vgpu{x.vgpu, "a", 0}, 8);
  BOOST_TEST(pausing().has_value());
}

BOOST_AUTO_TEST_CASE(a_migration_does_not_end_before_the_client_has_its_lease) {
  auto x = leaving();
  gave_state(x);
  auto there = comes_up("b");
  reconnect();
  claim_suspended(x);
  BOOST_TEST(!done(7));
  auto again = leased("c", 6);
  BOOST_REQUIRE(again);
  BOOST_TEST((again->epoch == there.epoch));
  runs_again(there);
  BOOST_TEST(done(7));
}

BOOST_AUTO_TEST_CASE(a_released_worker_does_not_serve_its_session) {
  specification large;
  large.memory = 3 * gib;
  auto x = suspend(false, false, large);
  auto other = open("a", large, "d");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(state() == "waiting");
  // The node registers again before that worker has ended.
  auto all = inventory("a");
  all.sessions = {serves(x), serves(other)};
  join(all);
  BOOST_TEST(state() == "waiting");
  ends(x);
  say("d", "client/d", close_session{other.session, other.epoch, "over"});
  BOOST_TEST((comes_up("a").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(a_state_given_before_the_nodes_return_is_resumed) {
  join("a");
  auto x = open("a");
  restart(false);
  connect();
  claim(x);
  gave_state(x);
  join_with(serves(x));
  ends(x);
  live(1s, {"a"});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST((order->epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(a_worker_that_ended_without_a_reason_is_replaced) {
  join("a");
  auto x = open("a");
  ends(x);
  // Its client might still report the program's end.
  live(2s, {"a"});
  BOOST_TEST(!ordered("a"));
  live(5s, {"a"});
  BOOST_TEST((comes_up("a").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(a_lost_order_to_restore_a_process_is_repeated) {
  auto x = suspend(true, true);
  command(resume_vgpu{x.vgpu}, 8);
  reconnect();
  claim_suspended(x, true, true);
  BOOST_TEST(!done(8));
  BOOST_TEST(take<restore_process>(out, "c").has_value());
  runs_again(x);
  BOOST_TEST(done(8));
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_worker_that_its_client_does_not_know_is_stopped) {
  auto x = leaving();
  gave_state(x);
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  // The next manager has no store, and the client does not have that lease.
  restart(false);
  auto there = inventory("b", 2);
  there.sessions.push_back(running("b", *order));
  join(there);
  connect();
  claim_suspended(x);
  auto end = take<stop_worker>(out, "n-b");
  BOOST_REQUIRE(end.has_value());
  BOOST_TEST((end->first.epoch == order->epoch));
  say("c", "client/c", wake_session{x.session});
  auto next = ordered("b");
  BOOST_REQUIRE(next);
  BOOST_TEST((next->epoch > order->epoch));
  // The next worker is not stopped in its place.
  started("b", *next);
  live(11s, {"b"});
  BOOST_TEST(!take<stop_worker>(out, "n-b").has_value());
}

BOOST_AUTO_TEST_CASE(a_client_with_the_state_may_claim_it_late) {
  specification bare;
  bare.protection = protection::none;
  auto x = suspend(false, false, bare);
  tell(chief, test::gone("c"));
  live(11s, {"a"});
  BOOST_TEST(count("session-closed") == 1u);
  connect();
  auto told = adoption(x);
  told.specification = bare;
  told.suspended = true;
  say("c", "client/c", told, 6);
  BOOST_TEST(refused("c") == "");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(ordered("a").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
