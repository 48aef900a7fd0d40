// Nodes, workers, clients and managers that fail and return, or do not.
#include "tests/unit/actors/manager_fixture.hpp"

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

BOOST_FIXTURE_TEST_SUITE(failure, cluster)

BOOST_AUTO_TEST_CASE(a_silent_nodes_sessions_restart_in_a_later_epoch) {
  join("a");
  auto first = open("a");
  join("b");
  live(450ms, {"b"});
  BOOST_TEST(!ordered("b")); // not yet
  live(100ms, {"b"});
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  BOOST_CHECK(order->session == first.session);
  BOOST_TEST(order->epoch.value == first.epoch.value + 1);
  BOOST_TEST(order->token != first.token);
  started("b", *order);
  auto moved = leased();
  BOOST_REQUIRE(moved);
  BOOST_TEST(moved->reason == "node lost");
  BOOST_TEST(moved->node == "b");
  BOOST_TEST(count("node-lost") == 1u);
  BOOST_TEST(count("session-replaced") == 1u);
}

BOOST_AUTO_TEST_CASE(a_closed_connection_is_noticed_before_silence) {
  join("a");
  open("a");
  join("b");
  tell(chief, test::gone("n-a"));
  live(50ms, {"b"});
  BOOST_TEST(!ordered("b"));
  live(100ms, {"b"});
  BOOST_TEST(ordered("b").has_value());
}

BOOST_AUTO_TEST_CASE(a_node_without_a_connection_gets_no_session) {
  join("a");
  auto first = open("a");
  join("b");
  tell(chief, test::gone("n-a"));
  say("c", "client/c", suspect{first.session, first.epoch, "silent"});
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(ordered("b").has_value());
}

BOOST_AUTO_TEST_CASE(a_node_that_reconnects_in_time_keeps_its_sessions) {
  join("a");
  connect();
  ask();
  auto order = ordered("a");
  started("a", *order);
  auto first = leased("c", 5);
  tell(chief, test::gone("n-a"));
  advance(50ms);
  auto back = inventory("a");
  back.sessions = {running("a", *order)};
  join(back, "n-a2");
  advance(300ms);
  BOOST_TEST(count("node-lost") == 0u);
  BOOST_TEST(!leased());
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["epoch"] == 1);
}

BOOST_AUTO_TEST_CASE(a_node_that_reconnects_too_late_is_fenced) {
  join("a");
  connect();
  ask();
  auto order = ordered("a");
  started("a", *order);
  BOOST_REQUIRE(leased("c", 5));
  join("b");
  live(600ms, {"b"});
  auto moved = ordered("b");
  BOOST_REQUIRE(moved);
  started("b", *moved);
  // It sends a heartbeat again, is answered that it is unknown, and registers.
  say("n-a", "node/a", node_beat{"a", 9, {}});
  auto ack = take<beat_ack>(out, "n-a");
  BOOST_REQUIRE(ack);
  BOOST_TEST(ack->first.incarnation == 0u);
  auto back = inventory("a");
  back.sessions = {running("a", *order)};
  join(back);
  auto stop = take<stop_worker>(out, "n-a");
  BOOST_REQUIRE(stop);
  BOOST_TEST(stop->first.epoch.value == 1u);
  BOOST_TEST(count("fenced") == 1u);
  BOOST_TEST(count("node-joined") == 3u);
}

BOOST_AUTO_TEST_CASE(a_crashed_worker_restarts_on_the_same_pgpus) {
  join("a", 2);
  join("b", 2);
  auto first = open("a");
  say("n-a", "node/a",
      worker_exited{first.session, first.epoch, "signal 9", false});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_CHECK(order->pgpus == first.pgpus);
  BOOST_TEST(order->epoch.value == 2u);
  started("a", *order);
  BOOST_TEST(leased()->reason == "worker exited: signal 9");
  // A late report of the first worker's end changes nothing.
  say("n-a", "node/a",
      worker_exited{first.session, first.epoch, "signal 9", false});
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(reports_of_an_older_epoch_change_nothing) {
  join("a");
  auto first = open("a");
  say("n-a", "node/a",
      worker_exited{first.session, first.epoch, "signal 9", false});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  // The first worker reports a start again, while the second is awaited.
  say("n-a", "node/a",
      worker_started{first.session, first.epoch, endpoints("old"), 66, ""});
  BOOST_TEST(!leased());
  BOOST_TEST(count("fenced") == 1u);
  started("a", *order);
  BOOST_TEST(leased()->worker.endpoint == endpoints("a").endpoint);
  // The first worker ends and its client gives its state. Neither concerns the
  // second.
  say("n-a", "node/a",
      worker_exited{first.session, first.epoch, "signal 9", false});
  say("c", "client/c", paused{first.session, first.epoch, "", 4096, 1});
  BOOST_TEST(count("worker-exited") == 1u);
  auto session = status()["vgpus"][0]["sessions"][0];
  BOOST_TEST(session["state"] == "running");
  BOOST_TEST(session["epoch"] == 2);
}

BOOST_AUTO_TEST_CASE(a_session_that_always_crashes_moves_then_ends) {
  join("a");
  join("b");
  auto now = open("a");
  std::string path;
  for (auto i = 0; i < 9; ++i) {
    std::string on = now.node;
    say("n-" + on, "node/" + on,
        worker_exited{now.session, now.epoch, "signal 11", false});
    live(6s, {"a", "b"});
    auto order = ordered("a");
    std::string next = "a";
    if (!order) {
      order = ordered("b");
      next = "b";
    }
    BOOST_REQUIRE(order);
    path += next;
    started(next, *order);
    auto got = leased();
    BOOST_REQUIRE(got);
    now = *got;
  }
  BOOST_TEST(path.substr(0, 2) == "ab");
  BOOST_TEST(take<refusal>(out, "c").has_value() == false);
  say("n-" + now.node, "node/" + now.node,
      worker_exited{now.session, now.epoch, "signal 11", false});
  live(100ms, {"a", "b"});
  auto no = take<refusal>(out, "c");
  BOOST_REQUIRE(no);
  BOOST_CHECK(no->first.session == now.session);
  BOOST_TEST(count("session-failed") == 1u);
  BOOST_TEST(status()["vgpus"].empty());
}

BOOST_AUTO_TEST_CASE(a_clean_exit_is_no_failure) {
  join("a");
  auto first = open("a");
  say("n-a", "node/a",
      worker_exited{first.session, first.epoch, "exit 0", true});
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(a_suspected_worker_is_replaced_once) {
  join("a");
  auto first = open("a");
  say("c", "client/c", suspect{first.session, first.epoch, "silent"}, 2);
  auto stop = take<stop_worker>(out, "n-a");
  BOOST_REQUIRE(stop);
  BOOST_TEST(stop->first.epoch.value == 1u);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  // The client reports it again before it has the new lease.
  say("c", "client/c", suspect{first.session, first.epoch, "silent"}, 3);
  BOOST_TEST(!ordered("a"));
  started("a", *order);
  BOOST_TEST(leased()->epoch.value == 2u);
  // It reports it once more afterwards, and gets the present lease again.
  say("c", "client/c", suspect{first.session, first.epoch, "silent"}, 4);
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(leased()->epoch.value == 2u);
  BOOST_TEST(count("session-suspect") == 1u);
}

BOOST_AUTO_TEST_CASE(a_session_without_a_place_waits_for_a_node) {
  join("a");
  auto first = open("a");
  live(700ms, {});
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["state"] == "waiting");
  BOOST_TEST(count("session-waiting") == 1u);
  live(1min, {});
  BOOST_TEST(count("session-waiting") == 1u);
  join("z");
  auto order = ordered("z");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == 2u);
  started("z", *order);
  BOOST_TEST(leased()->node == "z");
}

BOOST_AUTO_TEST_CASE(a_session_leaves_a_lost_pgpu) {
  join("a", 2);
  auto first = open("a");
  auto now = inventory("a", 2);
  now.pgpus.at(first.pgpus.at(0)).state = pgpu_health::lost;
  now.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  say("n-a", "node/a", now, 1);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->pgpus.at(0) != first.pgpus.at(0));
  BOOST_TEST(count("device-lost") == 1u);
  // Reporting the loss again causes no event.
  now.sessions.clear();
  now.sessions = {
      {order->session, order->epoch, order->vgpu, order->pgpus, {}, 0}};
  say("n-a", "node/a", now, 1);
  BOOST_TEST(count("device-lost") == 1u);
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(a_node_that_signs_off_hands_its_sessions_over) {
  join("a");
  open("a");
  join("b");
  say("n-a", "node/a", shutdown{}, 2);
  BOOST_TEST(ordered("b").has_value());
  BOOST_TEST(count("node-left") == 1u);
  BOOST_TEST(count("node-lost") == 0u);
  BOOST_TEST(!dead(chief));
}

BOOST_AUTO_TEST_CASE(a_name_belongs_to_one_node) {
  join("a");
  auto other = inventory("a");
  other.pid = 999;
  out.clear();
  join(other, "n-other");
  BOOST_TEST(refused("n-other").find("already") != std::string::npos);
  // After the first one's connection ended the name may be used again, as by a
  // restarted node.
  tell(chief, test::gone("n-a"));
  join(other, "n-other");
  BOOST_TEST(refused("n-other") == "");
  BOOST_TEST(status()["nodes"][0]["pid"] == 999);
}

BOOST_AUTO_TEST_CASE(a_node_that_is_heard_is_not_replaced) {
  join("a");
  auto first = open("a");
  // The stranger knows what the real node tells everybody.
  auto forged = inventory("a");
  forged.sessions = {{first.session,
                      {first.epoch.value + 1},
                      first.vgpu,
                      first.pgpus,
                      {"tcp://stranger", "@stranger", "h"},
                      66}};
  join(forged, "n-stranger");
  live(5s, {"a"});
  BOOST_TEST(!leased());
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["epoch"] == 1);
  say("c", "client/c", suspect{first.session, first.epoch, "silent"});
  BOOST_TEST(ordered("a").has_value());
  BOOST_TEST(!ordered("stranger"));
}

BOOST_AUTO_TEST_CASE(a_hello_alone_makes_nobody_a_node) {
  join("a");
  auto first = open("a");
  connect("d");
  ask({}, "d");
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  auto stranger = [&](body what) {
    say("stranger", "node/a", std::move(what), 1);
  };
  stranger(hello{1, 1, "t", role::node});
  stranger(worker_started{order->session, order->epoch, endpoints("stranger"),
                          66, ""});
  BOOST_TEST(!leased("d", 5));
  stranger(worker_exited{first.session, first.epoch, "signal 9", false});
  stranger(shutdown{});
  control::session_load stolen;
  stolen.session = first.session;
  stolen.epoch = first.epoch;
  stolen.usage.device_ns = 1'000'000'000;
  stranger(node_beat{"a", 7, {stolen}, {stolen}});
  auto ack = take<beat_ack>(out, "stranger");
  BOOST_REQUIRE(ack);
  BOOST_TEST(ack->first.number == 0u);
  BOOST_TEST(!dead(chief));
  BOOST_TEST(!leased());
  BOOST_TEST(status()["nodes"][0]["state"] == "alive");
  started("a", *order);
  BOOST_TEST(leased("d", 5).has_value());
}

BOOST_AUTO_TEST_CASE(a_node_may_reconnect_before_its_old_connection_is_lost) {
  join("a");
  auto first = open("a");
  auto back = inventory("a");
  back.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  join(back, "n-a2");
  BOOST_TEST(!take<done>(out, "n-a2").has_value());
  advance(300ms);
  BOOST_TEST(take<done>(out, "n-a2").has_value());
  say("n-a2", "node/a", node_beat{"a", 1, {}});
  advance(300ms);
  BOOST_TEST(count("node-lost") == 0u);
  BOOST_TEST(!leased());
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["epoch"] == 1);
}

BOOST_AUTO_TEST_CASE(a_node_does_not_raise_a_sessions_epoch) {
  join("a");
  auto first = open("a");
  for (auto epoch : {first.epoch.value + 1, ~std::uint64_t{0}}) {
    auto liar = inventory("b");
    liar.sessions = {
        {first.session, {epoch}, first.vgpu, first.pgpus, endpoints("b"), 66}};
    join(liar);
    BOOST_TEST(take<stop_worker>(out, "n-b").has_value());
    BOOST_TEST(!leased());
    BOOST_TEST(status()["vgpus"][0]["sessions"][0]["epoch"] == 1);
    BOOST_TEST(status()["vgpus"][0]["sessions"][0]["node"] == "a");
  }
}

BOOST_AUTO_TEST_CASE(only_a_sessions_node_may_account_for_it) {
  join("a");
  auto first = open("a");
  join("b");
  control::session_load stolen;
  stolen.session = first.session;
  stolen.epoch = first.epoch;
  stolen.usage.device_ns = 86'400'000'000'000;
  auto used = [&]() -> double {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", usage_request{0, "user"}, 9);
    auto got = take<status_text>(out, "cmd");
    BOOST_REQUIRE(got);
    auto all = nlohmann::json::parse(got->first.json);
    double sum = 0;
    for (auto& row : all.at("entries"))
      sum += row.at("device_seconds").get<double>();
    return sum;
  };
  live(10s, {"a", "b"});
  say("n-b", "node/b", node_beat{"b", 2, {stolen}, {stolen}});
  BOOST_TEST(used() == 0.0);
  // Its own node may report the time that its device had.
  say("n-a", "node/a", node_beat{"a", 2, {stolen}});
  BOOST_TEST(used() >= 10.0);
  BOOST_TEST(used() < 60.0);
  stolen.epoch = {first.epoch.value + 1};
  live(60s, {"a", "b"});
  auto before = used();
  say("n-a", "node/a", node_beat{"a", 3, {}, {stolen}});
  BOOST_TEST(used() == before);
}

/// Only the session's own client is believed.
BOOST_AUTO_TEST_CASE(a_client_tells_who_serves_managed_memory) {
  join("a");
  auto first = open("a");
  auto shown = [&] {
    return status()["vgpus"][0]["sessions"][0]["managed_memory"];
  };
  control::event told;
  told.kind = "managed-memory";
  told.session = first.session;
  told.text = "prog touches are served by a thread";
  say("n-a", "node/a", told);
  BOOST_TEST(shown() == "");
  say("c", "client/c", told);
  BOOST_TEST(shown() == "touches are served by a thread");
}

BOOST_AUTO_TEST_CASE(the_sessions_of_a_lost_client_are_closed) {
  join("a");
  open("a");
  tell(chief, test::gone("c"));
  live(4900ms, {"a"});
  BOOST_TEST(!take<stop_worker>(out, "n-a").has_value());
  live(200ms, {"a"});
  BOOST_TEST(take<stop_worker>(out, "n-a").has_value());
  BOOST_TEST(count("session-closed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_session_without_a_lease_ends_with_its_client) {
  join("a");
  connect();
  ask();
  BOOST_REQUIRE(ordered("a"));
  tell(chief, test::gone("c"));
  BOOST_TEST(take<stop_worker>(out, "n-a").has_value());
  BOOST_TEST(count("session-closed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_client_that_reconnects_in_time_keeps_its_sessions) {
  join("a");
  auto first = open("a");
  tell(chief, test::gone("c"));
  live(3s, {"a"});
  say("c2", "client/c", hello{1, 1, "t", role::client});
  say("c2", "client/c", adoption(first), 6);
  BOOST_CHECK(leased("c2", 6)->epoch == first.epoch);
  live(10s, {"a"});
  BOOST_TEST(count("session-closed") == 0u);
}

BOOST_AUTO_TEST_CASE(an_injected_fault_is_passed_on_to_its_node) {
  join("a");
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", inject_fault{"a", 0, injected_fault::hang}, 1);
  BOOST_TEST(take<inject_fault>(out, "n-a").has_value());
  BOOST_TEST(take<done>(out, "cmd").has_value());
  for (auto& bad : std::vector<inject_fault>{{"b", 0, injected_fault::hang},
                                             {"a", 7, injected_fault::hang}}) {
    say("cmd", "command/1", bad, 1);
    BOOST_TEST(refused("cmd") != "");
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(restart, cluster)

BOOST_AUTO_TEST_CASE(sessions_outlive_the_manager) {
  join("a");
  auto first = open("a");
  restart();
  BOOST_TEST(count("manager-restarted") == 1u);
  auto back = inventory("a");
  back.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  join(back);
  BOOST_TEST(!take<stop_worker>(out, "n-a").has_value());
  connect();
  claim(first, "c", 8);
  BOOST_CHECK(leased("c", 8)->worker == first.worker);
  live(20s, {"a"});
  BOOST_TEST(count("session-closed") == 0u);
  // Numbers are not used twice.
  ask();
  BOOST_TEST(ordered("a")->session.value > first.session.value);
}

BOOST_AUTO_TEST_CASE(another_client_needs_the_token) {
  join("a");
  auto first = open("a");
  restart();
  connect("d");
  auto forged = first;
  ++forged.token;
  claim(forged, "d", 8);
  BOOST_TEST(refused("d").find("token") != std::string::npos);
  claim(first, "d", 9);
  BOOST_TEST(leased("d", 9).has_value());
}

BOOST_AUTO_TEST_CASE(a_higher_epoch_needs_a_token_too) {
  join("a");
  auto first = open("a");
  connect("d");
  for (auto epoch : {first.epoch.value + 1, ~std::uint64_t{0}}) {
    auto forged = first;
    forged.epoch = {epoch};
    claim(forged, "d", 8);
    BOOST_TEST(refused("d") != "");
    BOOST_TEST(!leased("d", 8));
  }
  // The session still works.
  say("c", "client/c", suspect{first.session, first.epoch, "silent"});
  live(100ms, {"a"});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == first.epoch.value + 1);
}

BOOST_AUTO_TEST_CASE(an_invented_number_wraps_no_numbers) {
  join("a");
  connect();
  for (std::uint64_t number : {~0ull, 1ull << 62}) {
    lease invented;
    invented.session = {number};
    invented.vgpu = {number};
    invented.epoch = {1};
    claim(invented);
    BOOST_TEST(refused("c").find("numbers") != std::string::npos);
  }
  auto liar = inventory("b");
  liar.sessions = {{{~0ull}, {1}, {~0ull}, {0}, endpoints("b"), 66}};
  join(liar);
  ask();
  auto order = ordered("a");
  if (!order)
    order = ordered("b");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->session.value == 1u);
}

BOOST_AUTO_TEST_CASE(a_clients_name_gets_no_leases) {
  join("a");
  auto first = open("a");
  tell(chief, test::gone("c"));
  say("stranger", "client/c", hello{1, 1, "t", role::client});
  BOOST_TEST(!leased("stranger"));
  say("stranger", "client/c",
      close_session{first.session, first.epoch, "over"});
  BOOST_TEST(refused("stranger") != "");
  // Nor does it keep the session from its end.
  live(5100ms, {"a"});
  BOOST_TEST(count("session-closed") == 1u);
}

BOOST_AUTO_TEST_CASE(only_its_own_client_reports_about_a_session) {
  join("a");
  auto first = open("a");
  connect("d");
  event made_up;
  made_up.kind = "session-lost";
  made_up.session = first.session;
  say("d", "client/d", made_up, 1);
  BOOST_TEST(refused("d") != "");
  BOOST_TEST(count("session-lost") == 0u);
  made_up.session = {};
  made_up.node = "a";
  say("d", "client/d", made_up, 1);
  BOOST_TEST(refused("d") != "");
  made_up.session = first.session;
  say("c", "client/c", made_up, 1);
  say("n-a", "node/a", made_up, 1);
  BOOST_TEST(count("session-lost") == 2u);
  // A command tells what it did to others.
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", made_up, 1);
  BOOST_TEST(count("session-lost") == 3u);
}

BOOST_AUTO_TEST_CASE(a_node_that_does_not_return_is_lost) {
  join("a");
  auto first = open("a");
  restart();
  connect();
  claim(first);
  BOOST_TEST(leased("c", 6).has_value());
  join("b");
  live(2100ms, {"b"});
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == first.epoch.value + 1);
}

BOOST_AUTO_TEST_CASE(a_worker_that_died_during_a_restart_is_replaced) {
  join("a");
  auto first = open("a");
  restart();
  connect();
  claim(first);
  BOOST_TEST(leased("c", 6).has_value());
  join("a"); // without any session
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == 2u);
}

BOOST_AUTO_TEST_CASE(a_session_that_no_client_claims_is_closed) {
  join("a");
  auto first = open("a");
  restart();
  auto back = inventory("a");
  back.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  join(back);
  live(11s, {"a"});
  BOOST_TEST(take<stop_worker>(out, "n-a").has_value());
  BOOST_TEST(count("session-closed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_manager_without_a_store_trusts_nodes_and_clients) {
  join("a");
  auto first = open("a");
  restart(false);
  auto back = inventory("a");
  back.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  join(back);
  connect();
  claim(first, "c", 8);
  auto got = leased("c", 8);
  BOOST_REQUIRE(got);
  BOOST_CHECK(got->epoch == first.epoch);
  BOOST_TEST(got->quota == first.quota);
  BOOST_CHECK(got->worker == first.worker);
  live(20s, {"a"});
  BOOST_TEST(count("session-closed") == 0u);
  BOOST_TEST(!take<stop_worker>(out, "n-a").has_value());
}

BOOST_AUTO_TEST_CASE(the_client_may_reconnect_before_the_node) {
  join("a");
  auto first = open("a");
  restart(false);
  connect();
  claim(first, "c", 8);
  BOOST_TEST(!leased());
  advance(200ms);
  auto back = inventory("a");
  back.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  join(back);
  auto got = leased("c", 8);
  BOOST_REQUIRE(got);
  BOOST_CHECK(got->epoch == first.epoch);
}

BOOST_AUTO_TEST_CASE(a_session_without_its_node_is_replayed_elsewhere) {
  join("a");
  auto first = open("a");
  restart(false);
  connect();
  join("b");
  claim(first, "c", 8);
  live(2200ms, {"b"});
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == first.epoch.value + 1);
}

BOOST_AUTO_TEST_CASE(workers_that_nobody_claims_are_stopped) {
  join("a");
  auto first = open("a");
  restart(false);
  auto back = inventory("a");
  back.sessions = {
      {first.session, first.epoch, first.vgpu, first.pgpus, first.worker, 77}};
  join(back);
  live(10100ms, {"a"});
  BOOST_TEST(take<stop_worker>(out, "n-a").has_value());
}

BOOST_AUTO_TEST_CASE(only_a_session_with_a_journal_can_be_reopened) {
  join("a");
  live(11s, {"a"});
  connect();
  specification none{1.0, 0, 1, protection::none};
  say("c", "client/c", adopt{{40}, {40}, {3}, 7, none, {}, "a"}, 8);
  BOOST_TEST(refused("c").find("journal") != std::string::npos);
  say("c", "client/c", adopt{{41}, {41}, {3}, 7, {}, {}, "a"}, 9);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == 4u);
  BOOST_TEST(order->session.value == 41u);
}

BOOST_AUTO_TEST_SUITE_END()
