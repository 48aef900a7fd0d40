// How the manager decides to suspend, resume, migrate and drain.
#include "tests/unit/actors/movers.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::gib;
using test::movers;
using test::take;

BOOST_FIXTURE_TEST_SUITE(suspended_sessions, movers)

BOOST_AUTO_TEST_CASE(a_call_resumes_a_suspended_session) {
  auto x = suspend(false);
  BOOST_TEST(count("session-suspended") == 1u);
  BOOST_TEST(status()["nodes"][0]["pgpus"][0]["sessions"].size() == 0u);
  // Its worker ends in order, which is not a failure.
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

/// Its state cannot be described, so its worker's process is checkpointed.
BOOST_AUTO_TEST_CASE(a_checkpointed_process_is_restored_in_place) {
  auto x = suspend(true, true);
  BOOST_TEST(count("session-suspended") == 1u);
  BOOST_TEST(status()["nodes"][0]["pgpus"][0]["sessions"].size() == 0u);
  // Its worker stays on the node, so no other is started.
  live(2s, {"a"});
  BOOST_TEST(!ordered("a"));
  command(resume_vgpu{x.vgpu}, 8);
  auto back = take<restore_process>(out, "c");
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

BOOST_AUTO_TEST_CASE(a_checkpointed_process_waits_for_room) {
  specification large;
  large.memory = 3 * gib;
  auto x = suspend(false, true, large);
  // Another session gets its room.
  auto other = open("a", large, "d");
  join("b");
  say("c", "client/c", wake_session{x.session});
  // The other node has room, but the process is on this one.
  BOOST_TEST(!take<restore_process>(out, "c").has_value());
  BOOST_TEST(!ordered("b"));
  BOOST_TEST(state() == "waiting");
  say("d", "client/d", close_session{other.session, other.epoch, "over"});
  BOOST_TEST(take<restore_process>(out, "c").has_value());
  runs_again(x);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_CASE(a_session_with_a_lost_checkpointed_process_is_recovered) {
  auto x = suspend(false, true);
  say("n-a", "node/a", worker_exited{x.session, x.epoch, "signal 9", false});
  BOOST_TEST(count("worker-exited") == 1u);
  BOOST_TEST(state() == "suspended");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(!take<restore_process>(out, "c").has_value());
  BOOST_TEST((comes_up("a").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(checkpointed_processes_are_lost_with_their_node) {
  auto x = suspend(false, true);
  tell(chief, test::gone("n-a"));
  live(3s, {});
  BOOST_TEST(state() == "suspended");
  join("b");
  say("c", "client/c", wake_session{x.session});
  BOOST_TEST(!take<restore_process>(out, "c").has_value());
  BOOST_TEST((comes_up("b").epoch > x.epoch));
}

BOOST_AUTO_TEST_CASE(a_programs_end_ends_its_checkpointed_process) {
  auto x = suspend(true, true);
  say("c", "client/c", close_session{x.session, x.epoch, "over"});
  auto order = take<stop_worker>(out, "n-a");
  BOOST_REQUIRE(order.has_value());
  BOOST_TEST((order->first.session == x.session));
}

BOOST_AUTO_TEST_CASE(a_checkpointed_process_outlives_the_manager) {
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
  BOOST_TEST(take<restore_process>(out, "c").has_value());
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(a_held_session_waits_for_the_command_to_resume) {
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

BOOST_AUTO_TEST_CASE(a_reconnecting_client_wakes_no_suspended_session) {
  auto x = suspend(false);
  restart();
  join("a");
  connect();
  claim(x);
  live(2s, {"a"});
  BOOST_TEST(state() == "suspended");
  BOOST_TEST(!ordered("a"));
  // Only the connection broke.
  tell(chief, test::gone("c"));
  say("c2", "client/c", hello{1, 1, "t", role::client});
  BOOST_TEST(state() == "suspended");
  // Another client does not have its state, and would not notice a call.
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

BOOST_AUTO_TEST_CASE(a_suspension_ends_if_the_client_does_not_answer) {
  join("a");
  auto x = open("a");
  command(suspend_vgpu{x.vgpu, false}, 7);
  live(22min, {"a"});
  BOOST_TEST(refused("cmd").find("does not answer") != std::string::npos);
  command(suspend_vgpu{x.vgpu, false}, 8);
  BOOST_TEST(pausing().has_value());
}

BOOST_AUTO_TEST_CASE(a_session_is_moved_once_at_a_time) {
  join("a");
  join("b");
  auto x = open("a");
  command(migrate_vgpu{x.vgpu, "b", -1}, 7);
  command(suspend_vgpu{x.vgpu, false}, 8);
  BOOST_TEST(refused("cmd").find("being moved") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(migrations, movers)

BOOST_AUTO_TEST_CASE(a_session_migrates_to_the_named_pgpu) {
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

BOOST_AUTO_TEST_CASE(a_session_runs_until_its_target_worker_is_ready) {
  auto x = leaving();
  BOOST_TEST(!take<pause_session>(out, "c"));
  auto wanted = take<prepare_worker>(out, "n-b");
  BOOST_REQUIRE(wanted);
  BOOST_TEST((wanted->first.pgpus == std::vector<std::uint32_t>{1}));
  next_worker next{"w-1", 6};
  say("n-b", "node/b", worker_prepared{x.session, "", next});
  auto order = take<pause_session>(out, "c");
  BOOST_REQUIRE(order);
  // Both pGPUs are on one host, so memory can be lent, and the present worker
  // reaches the prepared one.
  BOOST_TEST((order->first.lend_to == std::vector<std::uint32_t>{1}));
  BOOST_CHECK(order->first.next == next);
  gave_state(x);
  auto start = ordered("b");
  BOOST_REQUIRE(start);
  BOOST_TEST(start->former_released);
  BOOST_TEST(start->quota == wanted->first.quota);
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_prepared_ends_the_migration) {
  leaving();
  BOOST_TEST(prepares("b", "no context"));
  BOOST_TEST(refused("cmd").find("no context") != std::string::npos);
  BOOST_TEST(!take<pause_session>(out, "c"));
  BOOST_TEST(state() == "running");
  BOOST_TEST(count("move-failed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_session_migrates_without_a_prepared_worker) {
  auto x = leaving();
  live(11s, {"a", "b"});
  BOOST_TEST(take<pause_session>(out, "c").has_value());
  gave_state(x);
  comes_up("b");
  BOOST_TEST(node() == "b");
}

BOOST_AUTO_TEST_CASE(a_worker_prepared_in_vain_is_given_up) {
  auto x = leaving();
  BOOST_REQUIRE(pausing());
  say("c", "client/c", paused{x.session, x.epoch, "not now", 0, 0});
  auto undone = take<prepare_worker>(out, "n-b");
  BOOST_REQUIRE(undone);
  BOOST_TEST(undone->first.pgpus.empty());
}

BOOST_AUTO_TEST_CASE(an_impossible_migration_is_refused) {
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

BOOST_AUTO_TEST_CASE(a_session_returns_if_its_target_fails) {
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

BOOST_AUTO_TEST_CASE(a_worker_lost_during_a_migration_is_replaced) {
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

BOOST_AUTO_TEST_CASE(a_drained_node_stays_drained_after_a_restart) {
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
  // Each opening rewrites the store, which must keep the drain.
  restart();
  restart();
  join("a");
  BOOST_TEST(!status()["nodes"][0]["draining"].get<bool>());
}

BOOST_AUTO_TEST_CASE(a_session_without_another_place_stays_on_a_drained_node) {
  join("a");
  open("a");
  command(drain_node{"a", false}, 7);
  BOOST_TEST(done(7));
  BOOST_TEST(!pausing());
  BOOST_TEST(count("move-failed") == 1u);
  BOOST_TEST(state() == "running");
}

BOOST_AUTO_TEST_SUITE_END()
