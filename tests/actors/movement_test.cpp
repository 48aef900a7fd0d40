// Suspending, resuming, migrating and draining, as the manager decides it.
#include "manager_fixture.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

namespace {

struct movers : cluster {
  void command(body what, std::uint64_t request) {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", std::move(what), request);
  }
  bool done(std::uint64_t request) {
    auto got = take<control::done>(out, "cmd");
    return got && got->second == request;
  }
  /// A session on node a that is to go to pGPU 1 of node b.
  lease leaving() {
    join("a");
    join("b", 2);
    auto x = open("a");
    command(migrate_vgpu{x.vgpu, "b", 1}, 7);
    return x;
  }

  /// What the client was told to do, where a worker was prepared if one was to
  /// be.
  std::optional<pause_session> pausing() {
    for (auto* node : {"a", "b"})
      prepares(node);
    auto got = take<pause_session>(out, "c");
    return got ? std::optional{got->first} : std::nullopt;
  }
  void gave_state(const lease& x, bool aside = false) {
    say("c", "client/c", paused{x.session, x.epoch, "", 1 << 20, 2.5, aside});
  }
  void runs_again(const lease& x) {
    say("c", "client/c", restored{x.session, x.epoch, 1 << 20, 7.5});
  }
  std::string state() { return status()["vgpus"][0]["sessions"][0]["state"]; }
  std::string node() { return status()["vgpus"][0]["sessions"][0]["node"]; }

  /// Until a session is suspended.
  lease suspend(bool hold, bool aside = false, specification spec = {}) {
    join("a");
    auto x = open("a", std::move(spec));
    command(suspend_vgpu{x.vgpu, hold}, 7);
    auto order = pausing();
    BOOST_REQUIRE(order);
    BOOST_TEST((order->session == x.session && order->epoch == x.epoch));
    BOOST_TEST(!done(7));
    gave_state(x, aside);
    BOOST_TEST(done(7));
    BOOST_TEST(state() == "suspended");
    return x;
  }
  /// The node starts what it was ordered, and the client makes use of it.
  lease comes_up(const std::string& where) {
    auto order = ordered(where);
    BOOST_REQUIRE(order);
    started(where, *order);
    auto got = leased("c");
    BOOST_REQUIRE(got);
    return *got;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(suspended_sessions, movers)

BOOST_AUTO_TEST_CASE(a_call_brings_a_suspended_session_back) {
  auto x = suspend(false);
  BOOST_TEST(count("session-suspended") == 1u);
  BOOST_TEST(status()["nodes"][0]["pgpus"][0]["sessions"].size() == 0u);
  // Its worker ended in order: nothing is wrong.
  say("n-a", "node/a", worker_exited{x.session, x.epoch, "exit 0", true});
  live(2s, {"a"});
  BOOST_TEST(!ordered("a"));
  say("c", "client/c", wake_session{x.session});
  auto again = comes_up("a");
  BOOST_TEST((again.epoch > x.epoch));
  runs_again(again);
  BOOST_TEST(count("session-resumed") == 1u);
  BOOST_TEST(state() == "running");
}

/// Nobody could describe it: its worker is aside.
BOOST_AUTO_TEST_CASE(a_worker_that_is_aside_comes_back_in_its_own_place) {
  auto x = suspend(true, true);
  BOOST_TEST(count("session-suspended") == 1u);
  BOOST_TEST(status()["nodes"][0]["pgpus"][0]["sessions"].size() == 0u);
  // Its node has it all the while.
  live(2s, {"a"});
  BOOST_TEST(!ordered("a"));
  command(resume_vgpu{x.vgpu}, 8);
  auto back = take<bring_back>(out, "c");
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(
      (back->first.session == x.session && back->first.epoch == x.epoch));
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(!done(8));
  runs_again(x);
  BOOST_TEST(done(8));
  BOOST_TEST(count("session-resumed") == 1u);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_aside_waits_for_room) {
  specification large;
  large.memory = 3 * gib;
  auto x = suspend(false, true, large);
  // Somebody else has its room.
  auto other = open("a", large, "d");
  join("b");
  say("c", "client/c", wake_session{x.session});
  // Elsewhere there is room; its worker is here.
  BOOST_TEST(!take<bring_back>(out, "c").has_value());
  BOOST_TEST(!ordered("b"));
  BOOST_TEST(state() == "waiting");
  say("d", "client/d", close_session{other.session, other.epoch, "over"});
  BOOST_TEST(take<bring_back>(out, "c").has_value());
  runs_again(x);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_lost_while_aside_is_made_up_for) {
  auto x = suspend(false, true);
  say("n-a", "node/a", worker_exited{x.session, x.epoch, "signal 9", false});
  BOOST_TEST(count("worker-exited") == 1u);
  BOOST_TEST(state() == "suspended");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(!take<bring_back>(out, "c").has_value());
  BOOST_TEST((comes_up("a").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(a_node_that_is_lost_takes_those_that_are_aside_along) {
  auto x = suspend(false, true);
  tell(chief, test::gone("n-a"));
  live(3s, {});
  BOOST_TEST(state() == "suspended");
  join("b");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(!take<bring_back>(out, "c").has_value());
  BOOST_TEST((comes_up("b").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(the_end_of_its_program_ends_a_worker_that_is_aside) {
  auto x = suspend(true, true);
  say("c", "client/c", close_session{x.session, x.epoch, "over"});
  auto order = take<stop_worker>(out, "n-a");
  BOOST_REQUIRE(order.has_value());
  BOOST_TEST((order->first.session == x.session));
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_aside_outlives_the_manager) {
  auto x = suspend(true, true);
  restart();
  auto node = inventory("a");
  node.sessions.push_back(
      {x.session, x.epoch, x.vgpu, x.pgpus, endpoints("a"), 77});
  join(node);
  connect();
  claim(x);
  BOOST_TEST(state() == "suspended");
  command(resume_vgpu{x.vgpu}, 8);
  BOOST_TEST(take<bring_back>(out, "c").has_value());
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(a_held_one_waits_for_its_name) {
  auto x = suspend(true);
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(!ordered("a"));
  command(resume_vgpu{x.vgpu}, 8);
  auto again = comes_up("a");
  BOOST_TEST(!done(8));
  runs_again(again);
  BOOST_TEST(done(8));
}

BOOST_AUTO_TEST_CASE(a_suspended_session_outlives_the_manager) {
  auto x = suspend(true);
  restart();
  join("a");
  connect();
  BOOST_TEST(state() == "suspended");
  claim(x);
  BOOST_TEST(!ordered("a"));
  command(resume_vgpu{x.vgpu}, 8);
  BOOST_TEST(ordered("a").has_value());
}

BOOST_AUTO_TEST_CASE(its_clients_return_does_not_wake_a_suspended_session) {
  auto x = suspend(false);
  restart();
  join("a");
  connect();
  claim(x);
  live(2s, {"a"});
  BOOST_TEST(state() == "suspended");
  BOOST_TEST(!ordered("a"));
  // The connection alone broke.
  tell(chief, test::gone("c"));
  say("c2", "client/c", hello{1, 1, "t", role::client});
  BOOST_TEST(state() == "suspended");
  // Another client has nothing of it, and would not notice a call.
  connect("d");
  claim(x, "d");
  BOOST_TEST(ordered("a").has_value());
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_described_runs_on) {
  join("a");
  auto x = open("a");
  command(suspend_vgpu{x.vgpu, false}, 7);
  BOOST_REQUIRE(pausing());
  say("c", "client/c",
      paused{x.session, x.epoch, "a host function runs", 0, 0});
  BOOST_TEST(refused("cmd").find("a host function runs") != std::string::npos);
  BOOST_TEST(state() == "running");
  BOOST_TEST(count("move-failed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_client_that_does_not_answer_is_not_waited_for) {
  join("a");
  auto x = open("a");
  command(suspend_vgpu{x.vgpu, false}, 7);
  live(22min, {"a"});
  BOOST_TEST(refused("cmd").find("does not answer") != std::string::npos);
  command(suspend_vgpu{x.vgpu, false}, 8);
  BOOST_TEST(pausing().has_value());
}

BOOST_AUTO_TEST_CASE(nobody_is_moved_twice_at_once) {
  join("a");
  join("b");
  auto x = open("a");
  command(migrate_vgpu{x.vgpu, "b", -1}, 7);
  command(suspend_vgpu{x.vgpu, false}, 8);
  BOOST_TEST(refused("cmd").find("being moved") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(migrations, movers)

BOOST_AUTO_TEST_CASE(a_session_goes_where_it_is_told) {
  auto x = leaving();
  gave_state(x);
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  BOOST_TEST((order->pgpus == std::vector<std::uint32_t>{1}));
  started("b", *order);
  runs_again(*leased("c"));
  BOOST_TEST(done(7));
  BOOST_TEST(node() == "b");
  auto all = events();
  auto last = all.back();
  BOOST_TEST(last.kind == "session-migrated");
  BOOST_TEST(last.milliseconds == 7.5);
}

BOOST_AUTO_TEST_CASE(it_runs_until_a_worker_is_ready_where_it_goes) {
  auto x = leaving();
  BOOST_TEST(!take<pause_session>(out, "c"));
  auto wanted = take<prepare_worker>(out, "n-b");
  BOOST_REQUIRE(wanted);
  BOOST_TEST((wanted->first.pgpus == std::vector<std::uint32_t>{1}));
  say("n-b", "node/b", worker_prepared{x.session, ""});
  auto order = take<pause_session>(out, "c");
  BOOST_REQUIRE(order);
  // Both are on one host: memory may go along.
  BOOST_TEST((order->first.lend_to == std::vector<std::uint32_t>{1}));
  gave_state(x);
  auto start = ordered("b");
  BOOST_REQUIRE(start);
  BOOST_TEST(start->former_gave_way);
  BOOST_TEST(start->quota == wanted->first.quota);
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_prepared_ends_the_move) {
  leaving();
  BOOST_TEST(prepares("b", "no context"));
  BOOST_TEST(refused("cmd").find("no context") != std::string::npos);
  BOOST_TEST(!take<pause_session>(out, "c"));
  BOOST_TEST(state() == "running");
  BOOST_TEST(count("move-failed") == 1u);
}

BOOST_AUTO_TEST_CASE(it_goes_without_where_none_is_prepared_in_time) {
  auto x = leaving();
  live(11s, {"a", "b"});
  BOOST_TEST(take<pause_session>(out, "c").has_value());
  gave_state(x);
  comes_up("b");
  BOOST_TEST(node() == "b");
}

BOOST_AUTO_TEST_CASE(what_was_prepared_in_vain_is_given_up) {
  auto x = leaving();
  BOOST_REQUIRE(pausing());
  say("c", "client/c", paused{x.session, x.epoch, "not now", 0, 0});
  auto undone = take<prepare_worker>(out, "n-b");
  BOOST_REQUIRE(undone);
  BOOST_TEST(undone->first.pgpus.empty());
}

BOOST_AUTO_TEST_CASE(what_is_impossible_is_refused_and_changes_nothing) {
  join("a");
  auto x = open("a");
  command(migrate_vgpu{x.vgpu, "", -1}, 7);
  BOOST_TEST(refused("cmd").find("cannot be migrated") != std::string::npos);
  command(migrate_vgpu{x.vgpu, "z", -1}, 8);
  BOOST_TEST(refused("cmd").find("no node 'z'") != std::string::npos);
  command(migrate_vgpu{x.vgpu, "a", 0}, 9);
  BOOST_TEST(!refused("cmd").empty());
  command(migrate_vgpu{vgpu_id{99}, "a", 0}, 10);
  BOOST_TEST(refused("cmd").find("no vGPU 99") != std::string::npos);
  BOOST_TEST(!pausing());
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_target_that_fails_sends_it_back) {
  join("a");
  join("b");
  auto x = open("a");
  command(migrate_vgpu{x.vgpu, "b", -1}, 7);
  gave_state(x);
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  started("b", *order, "no memory");
  live(1s, {"a", "b"});
  auto again = comes_up("a");
  runs_again(again);
  auto why = refused("cmd");
  BOOST_TEST(why.find("again") != std::string::npos);
  BOOST_TEST(why.find("no memory") != std::string::npos);
  BOOST_TEST(count("move-failed") == 1u);
  BOOST_TEST(node() == "a");
}

BOOST_AUTO_TEST_CASE(a_worker_lost_meanwhile_is_replaced_as_ever) {
  join("a");
  join("b");
  auto x = open("a");
  command(migrate_vgpu{x.vgpu, "b", -1}, 7);
  BOOST_REQUIRE(pausing());
  say("n-a", "node/a", worker_exited{x.session, x.epoch, "signal 9", false});
  BOOST_TEST(refused("cmd").find("lost") != std::string::npos);
  live(1s, {"a", "b"});
  comes_up("a");
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_drained_node_is_emptied_and_stays_empty) {
  join("a");
  auto x = open("a");
  join("b");
  command(drain_node{"a", false}, 7);
  BOOST_TEST(done(7));
  BOOST_REQUIRE(pausing());
  gave_state(x);
  runs_again(comes_up("b"));
  BOOST_TEST(node() == "b");
  ask({}, "c", 6);
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(ordered("b").has_value());
  BOOST_TEST(status()["nodes"][0]["draining"].get<bool>());
  command(drain_node{"a", true}, 8);
  ask({}, "c", 9);
  BOOST_TEST(ordered("a").has_value());
}

BOOST_AUTO_TEST_CASE(a_drained_node_stays_so_when_the_manager_is_restarted) {
  join("a");
  join("b");
  command(drain_node{"a", false}, 7);
  restart();
  join("a");
  join("b");
  BOOST_TEST(status()["nodes"][0]["draining"].get<bool>());
  BOOST_TEST(!status()["nodes"][1]["draining"].get<bool>());
  connect();
  ask();
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(ordered("b").has_value());
  command(drain_node{"a", true}, 8);
  // A store is written anew at each opening: twice, it is not forgotten.
  restart();
  restart();
  join("a");
  BOOST_TEST(!status()["nodes"][0]["draining"].get<bool>());
}

BOOST_AUTO_TEST_CASE(with_no_place_left_a_drained_nodes_session_stays) {
  join("a");
  open("a");
  command(drain_node{"a", false}, 7);
  BOOST_TEST(done(7));
  BOOST_TEST(!pausing());
  BOOST_TEST(count("move-failed") == 1u);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_SUITE_END()

// -- what nobody heard --------------------------------------------------------

namespace {

struct unheard : movers {
  /// The connection breaks, and stands again; what was under way is lost.
  void reconnect() {
    tell(chief, test::gone("c"));
    connect();
    out.clear();
  }
  /// What a client says that has the state, or whose worker is aside.
  void claim_suspended(const lease& x, bool held = false, bool aside = false) {
    auto told = adoption(x);
    told.suspended = true;
    told.held = held;
    told.aside = aside;
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

BOOST_AUTO_TEST_CASE(a_move_whose_client_was_not_heard_is_finished) {
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

BOOST_AUTO_TEST_CASE(one_that_the_next_manager_does_not_know_goes_on) {
  auto x = leaving();
  BOOST_REQUIRE(pausing());
  restart();
  join("b");
  // Its worker is still on its way out.
  join_with(serves(x));
  connect();
  claim_suspended(x);
  say("c", "client/c", wake_session{x.session});
  ends(x);
  live(1s, {"a", "b"});
  BOOST_TEST((ordered("a") || ordered("b")));
}

BOOST_AUTO_TEST_CASE(a_suspension_whose_client_was_not_heard_is_one) {
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

BOOST_AUTO_TEST_CASE(an_order_that_was_lost_is_given_again) {
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
  // As the answer to the first one.
  gave_state(x);
  BOOST_TEST(done(7));
  BOOST_TEST(state() == "suspended");
}

BOOST_AUTO_TEST_CASE(a_clients_death_ends_what_it_was_ordered) {
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

BOOST_AUTO_TEST_CASE(who_is_back_unheard_has_arrived) {
  auto x = leaving();
  gave_state(x);
  auto there = comes_up("b");
  // It runs again, and its word of that is lost.
  reconnect();
  claim(there);
  BOOST_TEST(done(7));
  BOOST_TEST(count("session-migrated") == 1u);
  BOOST_TEST(node() == "b");
  command(migrate_vgpu{x.vgpu, "a", 0}, 8);
  BOOST_TEST(pausing().has_value());
}

BOOST_AUTO_TEST_CASE(who_has_not_heard_of_its_new_place_has_not_arrived) {
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

BOOST_AUTO_TEST_CASE(a_worker_that_gave_way_serves_nobody) {
  specification large;
  large.memory = 3 * gib;
  auto x = suspend(false, false, large);
  auto other = open("a", large, "d");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(state() == "waiting");
  // Its node comes again before that worker has ended.
  auto all = inventory("a");
  all.sessions = {serves(x), serves(other)};
  join(all);
  BOOST_TEST(state() == "waiting");
  ends(x);
  say("d", "client/d", close_session{other.session, other.epoch, "over"});
  BOOST_TEST((comes_up("a").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(who_gives_its_state_before_its_node_is_back_goes_on) {
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

BOOST_AUTO_TEST_CASE(a_worker_that_ended_and_nobody_says_why_is_replaced) {
  join("a");
  auto x = open("a");
  ends(x);
  // Its client is about to say that its program has ended.
  live(2s, {"a"});
  BOOST_TEST(!ordered("a"));
  live(5s, {"a"});
  BOOST_TEST((comes_up("a").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(nobody_is_brought_back_in_vain) {
  auto x = suspend(true, true);
  command(resume_vgpu{x.vgpu}, 8);
  reconnect();
  claim_suspended(x, true, true);
  BOOST_TEST(!done(8));
  BOOST_TEST(take<bring_back>(out, "c").has_value());
  runs_again(x);
  BOOST_TEST(done(8));
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_worker_that_its_client_knows_nothing_of_is_ended) {
  auto x = leaving();
  gave_state(x);
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  // With neither its store nor that lease.
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
  // Nor is the next one taken for it later.
  started("b", *next);
  live(11s, {"b"});
  BOOST_TEST(!take<stop_worker>(out, "n-b").has_value());
}

BOOST_AUTO_TEST_CASE(who_has_its_state_may_come_late) {
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

// -- idle ones ----------------------------------------------------------------

namespace {

struct idlers : movers {
  static specification lazy(std::uint64_t memory = 0) {
    specification out;
    out.idle_after_ms = 1'000;
    out.memory = memory;
    return out;
  }
  /// What its node tells of it while this time passes.
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

BOOST_AUTO_TEST_CASE(who_does_nothing_gives_way_until_its_next_call) {
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

BOOST_AUTO_TEST_CASE(who_calls_stays_and_so_does_who_is_to_be_kept) {
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

BOOST_AUTO_TEST_CASE(what_it_held_is_for_others) {
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

BOOST_AUTO_TEST_CASE(who_cannot_be_suspended_is_left_alone_for_a_while) {
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

BOOST_AUTO_TEST_SUITE_END()
