#include "tests/unit/actors/manager_fixture.hpp"

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

BOOST_FIXTURE_TEST_SUITE(hello_and_refusals, cluster)

BOOST_AUTO_TEST_CASE(versions_are_negotiated) {
  say("x", "client/x", hello{1, 7, "new", role::client});
  auto got = take<welcome>(out, "x");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->first.version == 1u);
  BOOST_TEST(got->first.incarnation != 0u);
  BOOST_TEST(got->first.beat_every_ms == 100u);
  say("y", "client/y", hello{2, 7, "newer", role::client});
  BOOST_TEST(refused("y").find("2 to 7") != std::string::npos);
  say("z", "client/z", hello{3, 2, "odd", role::client});
  BOOST_TEST(!refused("z").empty());
}

BOOST_AUTO_TEST_CASE(names_fit_their_role) {
  for (auto [from, as] :
       std::vector<std::pair<std::string, role>>{{"client/a", role::node},
                                                 {"node/", role::node},
                                                 {"node/a b", role::node},
                                                 {"node/a\n", role::node},
                                                 {"", role::client}}) {
    say("x", from, hello{1, 1, "t", as});
    BOOST_TEST(!refused("x").empty());
  }
}

BOOST_AUTO_TEST_CASE(messages_that_do_not_fit_the_senders_role_are_refused) {
  say("x", "client/x", status_request{}, 1);
  BOOST_TEST(refused("x").find("hello") != std::string::npos);
  connect("x");
  say("x", "client/x", inventory("a"), 1);
  BOOST_TEST(!refused("x").empty());
  say("x", "client/y", acquire{}, 1);
  BOOST_TEST(refused("x").find("client/x") != std::string::npos);
  say("x", "client/x", shutdown{}, 1);
  BOOST_TEST(!refused("x").empty());
  say("x", "client/x", welcome{}, 1);
  BOOST_TEST(!refused("x").empty());
}

/// The manager handles no message that the table of messages does not permit.
BOOST_AUTO_TEST_CASE(every_message_of_another_role_is_refused) {
  std::vector<std::pair<std::string, role>> senders{
      {"node/n", role::node},
      {"client/c", role::client},
      {"worker/1", role::worker},
      {"command/1", role::command}};
  auto refused_in_all = 0;
  auto try_row = [&](const auto& row, const std::string& from, role as) {
    using type = typename std::decay_t<decltype(row)>::type;
    if (row.may_say.has(as))
      return;
    BOOST_TEST_CONTEXT(from << " says " << row.name.data()) {
      say(from, from, type{}, 1);
      BOOST_TEST(refused(from).find("may not say") != std::string::npos);
      ++refused_in_all;
    }
  };
  for (const auto& [from, as] : senders) {
    say(from, from, hello{1, 1, "t", as});
    BOOST_REQUIRE(take<welcome>(out, from));
    std::apply([&](const auto&... row) { (try_row(row, from, as), ...); },
               control::messages);
  }
  BOOST_TEST(refused_in_all > 0);
  BOOST_TEST(!dead(chief));
}

BOOST_AUTO_TEST_CASE(a_command_ends_the_manager) {
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", shutdown{}, 1);
  BOOST_TEST(take<done>(out, "cmd").has_value());
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(the_status_says_what_a_nodes_workers_give_up) {
  auto node = inventory("a");
  node.sandbox = "seccomp; not: files (no Landlock)";
  join(node);
  BOOST_TEST(status()["nodes"][0]["sandbox"] ==
             "seccomp; not: files (no Landlock)");
}

BOOST_AUTO_TEST_CASE(a_request_that_can_never_be_served_is_refused_at_once) {
  connect();
  ask();
  BOOST_TEST(refused("c").find("no node") != std::string::npos);
  join("a");
  ask({1.0, 5 * gib, 1, protection::journal});
  BOOST_TEST(refused("c").find("memory") != std::string::npos);
  ask({0.0, 0, 1, protection::journal});
  BOOST_TEST(refused("c").find("share") != std::string::npos);
  ask({1.0, 0, 2, protection::journal});
  BOOST_TEST(refused("c").find("2 GPUs") != std::string::npos);
  BOOST_TEST(count("refused") == 4u);
  BOOST_TEST(status()["vgpus"].empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(placement, cluster)

BOOST_AUTO_TEST_CASE(a_client_gets_a_lease_when_its_worker_is_up) {
  join("a");
  connect();
  ask({0.25, 0, 1, protection::journal});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->epoch.value == 1u);
  BOOST_TEST(order->token != 0u);
  BOOST_TEST(order->quota == gib);
  BOOST_TEST(!leased()); // not before its worker is up
  started("a", *order);
  auto got = leased("c", 5);
  BOOST_REQUIRE(got);
  BOOST_TEST(got->token == order->token);
  BOOST_TEST(got->worker.endpoint == "tcp://a");
  BOOST_TEST(got->devices.size() == 1u);
  BOOST_TEST(got->reason == "first");
  BOOST_TEST(count("session-opened") == 1u);
  auto shown = status();
  BOOST_TEST(shown["nodes"][0]["pgpus"][0]["sessions"].size() == 1u);
  BOOST_TEST(shown["vgpus"][0]["sessions"][0]["state"] == "running");
}

BOOST_AUTO_TEST_CASE(sessions_spread_and_share) {
  join("a", 2);
  connect();
  std::map<std::uint32_t, int> on;
  for (auto i = 0; i < 6; ++i) {
    ask();
    auto order = ordered("a");
    BOOST_REQUIRE(order);
    ++on[order->pgpus.at(0)];
  }
  BOOST_TEST(on[0] == 3);
  BOOST_TEST(on[1] == 3);
}

BOOST_AUTO_TEST_CASE(requests_wait_until_reserved_memory_is_free) {
  join("a");
  auto first = open("a", {1.0, 3 * gib, 1, protection::journal});
  BOOST_TEST(first.quota == 3 * gib);
  ask({1.0, 2 * gib, 1, protection::journal}, "c", 6);
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(refused("c") == "");
  BOOST_TEST(count("session-waiting") == 1u);
  say("c", "client/c", close_session{first.session, first.epoch, "done"});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  started("a", *order);
  BOOST_TEST(leased("c", 6).has_value());
}

BOOST_AUTO_TEST_CASE(a_request_without_memory_gets_unreserved_memory) {
  join("a");
  specification none{1.0, 0, 1, protection::journal};
  auto reserved = open("a", {0.5, 3 * gib, 1, protection::journal});
  BOOST_TEST(open("a", none).quota == gib);
  // Its share of the memory, where that is less.
  BOOST_TEST(open("a", {0.125, 0, 1, protection::journal}).quota == gib / 2);
  // A quota is never 0, which would mean no quota.
  auto all = open("a", {0.5, gib, 1, protection::journal});
  BOOST_TEST(open("a", none).quota == granule_bytes);
  say("c", "client/c", close_session{reserved.session, reserved.epoch, "done"});
  say("c", "client/c", close_session{all.session, all.epoch, "done"});
  BOOST_TEST(open("a", none).quota == 4 * gib);
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_start_is_tried_again_then_refused) {
  join("a");
  connect();
  ask();
  for (auto i = 1u; i <= 3; ++i) {
    auto order = ordered("a");
    BOOST_REQUIRE(order);
    BOOST_TEST(order->epoch.value == i);
    started("a", *order, "no such file");
    live(200ms, {"a"});
  }
  BOOST_TEST(refused("c").find("no such file") != std::string::npos);
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(status()["vgpus"].empty());
}

BOOST_AUTO_TEST_CASE(a_worker_that_never_comes_up_is_given_up) {
  join("a");
  connect();
  ask();
  auto late = ordered("a");
  BOOST_REQUIRE(late);
  live(16s, {"a"});
  auto again = ordered("a");
  BOOST_REQUIRE(again);
  BOOST_TEST(again->epoch.value == 2u);
  // The first worker comes up after all.
  started("a", *late);
  BOOST_TEST(!leased());
  BOOST_TEST(count("fenced") == 1u);
  started("a", *again);
  BOOST_TEST(leased("c", 5)->epoch.value == 2u);
}

BOOST_AUTO_TEST_CASE(only_its_own_client_closes_a_session) {
  join("a");
  auto mine = open("a");
  connect("d");
  say("d", "client/d", close_session{mine.session, mine.epoch, ""}, 1);
  BOOST_TEST(!refused("d").empty());
  say("c", "client/c", close_session{mine.session, mine.epoch, ""}, 1);
  auto stop = take<stop_worker>(out, "n-a");
  BOOST_REQUIRE(stop);
  BOOST_CHECK(stop->first.epoch == mine.epoch);
  BOOST_TEST(count("session-closed") == 1u);
  say("c", "client/c", close_session{mine.session, mine.epoch, ""}, 1);
  BOOST_TEST(refused("c").find("not known") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(events_and_time, cluster)

BOOST_AUTO_TEST_CASE(a_request_for_events_waits_for_the_next_one) {
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", events_request{0, 1000}, 3);
  BOOST_TEST(!take<control::events>(out, "cmd"));
  join("a");
  auto got = take<control::events>(out, "cmd");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->second == 3u);
  BOOST_TEST(got->first.list.at(0).kind == "node-joined");
  // After its time without an event it gets none.
  say("cmd", "command/1", events_request{got->first.list.back().number, 300},
      4);
  live(250ms, {"a"});
  BOOST_TEST(!take<control::events>(out, "cmd"));
  live(100ms, {"a"});
  BOOST_REQUIRE(take<control::events>(out, "cmd"));
}

BOOST_AUTO_TEST_CASE(reported_events_are_numbered_and_cut) {
  connect();
  event long_one;
  long_one.kind = "first-result";
  long_one.text = std::string(100'000, 'x');
  long_one.number = 99;
  long_one.calls = 7;
  say("c", "client/c", long_one, 1);
  BOOST_TEST(take<done>(out, "c").has_value());
  auto got = events();
  BOOST_TEST(got.back().number == 1u);
  BOOST_TEST(got.back().text.size() == 1024u);
  BOOST_TEST(got.back().calls == 7u);
  BOOST_TEST(got.back().time == 1.5);
}

BOOST_AUTO_TEST_CASE(only_the_last_ten_thousand_events_are_kept) {
  event_log log;
  for (auto i = 0; i < 10'500; ++i)
    log.add({});
  auto first = log.after(0, {});
  BOOST_TEST(first.size() == event_log::most_at_once);
  BOOST_TEST(first.front().number == 501u);
  BOOST_TEST(log.after(10'499, {}).size() == 1u);
  BOOST_TEST(log.after(10'500, {}).empty());
}

BOOST_AUTO_TEST_CASE(an_idle_hour_changes_nothing) {
  join("a");
  open("a");
  out.clear();
  for (auto i = 0; i < 36'000; ++i) {
    say("n-a", "node/a", node_beat{"a", 1, {}});
    advance(100ms, 100ms);
    out.clear();
  }
  BOOST_TEST(count("node-lost") == 0u);
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["epoch"] == 1);
}

BOOST_AUTO_TEST_CASE(an_idle_manager_ends_after_its_last_session) {
  kill(chief);
  end_when_idle = 2000ms;
  start(false);
  join("a");
  live(1500ms, {"a"});
  auto x = open("a");
  live(10s, {"a"});
  BOOST_TEST(!dead(chief));
  tell(chief, test::gone("c")); // its sessions close after 5 s
  live(6500ms, {"a"});
  BOOST_TEST(!dead(chief));
  live(1s, {"a"});
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(an_idle_manager_ends_without_any_session) {
  kill(chief);
  end_when_idle = 2000ms;
  start(false);
  advance(1900ms);
  BOOST_TEST(!dead(chief));
  advance(200ms);
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(loads_of_the_present_epoch_are_shown) {
  join("a");
  auto x = open("a");
  say("n-a", "node/a", node_beat{"a", 1, {{x.session, {9}, 1, 1, 1}}});
  BOOST_TEST(status()["nodes"][0]["pgpus"][0]["used"] == 0);
  say("n-a", "node/a", node_beat{"a", 2, {{x.session, x.epoch, 5, 6, 7}}});
  BOOST_TEST(status()["nodes"][0]["pgpus"][0]["used"] == 5);
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["calls"] == 6);
}

BOOST_AUTO_TEST_SUITE_END()
