// Sessions that are resized, placed by constraints, or wait in the queue.
#include "tests/unit/actors/manager_fixture.hpp"

#include <limits>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

BOOST_FIXTURE_TEST_SUITE(resizing, cluster)

namespace {

template <class T>
std::optional<T> to_node(cluster& of, const std::string& node) {
  auto got = take<T>(of.out, "n-" + node);
  return got ? std::optional{got->first} : std::nullopt;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_vgpu_is_resized_while_it_runs) {
  join("a");
  auto lease = open("a", {0.25, gib, 1, protection::journal});
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", set_vgpu{lease.vgpu, 0.5, 0.75, 2 * gib, true, 9}, 4);
  BOOST_TEST(take<done>(out, "cmd").has_value());
  auto told = to_node<resize_session>(*this, "a");
  BOOST_REQUIRE(told);
  BOOST_TEST(told->share == 0.5);
  BOOST_TEST(told->limit == 0.75);
  BOOST_TEST(told->priority == 9);
  BOOST_TEST(told->quota == 2 * gib);
  // The program may use the larger quota once its worker has it.
  BOOST_TEST(!leased());
  session_load load{lease.session, lease.epoch, 0, 0, 0, 0, 0, 2 * gib};
  say("n-a", "node/a", node_beat{"a", 1, {load}});
  auto more = leased();
  BOOST_REQUIRE(more);
  BOOST_TEST(more->quota == 2 * gib);
  BOOST_CHECK(more->epoch == lease.epoch);
  BOOST_TEST(status()["vgpus"][0]["priority"] == 9);
  BOOST_TEST(count("vgpu-resized") == 1u);
  // Values that are not named stay, and the client gets a smaller quota at
  // once.
  say("cmd", "command/1", set_vgpu{lease.vgpu, 0, 0, gib, false, 0}, 4);
  BOOST_TEST(leased()->quota == gib);
  auto less = to_node<resize_session>(*this, "a");
  BOOST_TEST(less->share == 0.5);
  BOOST_TEST(less->priority == 9);
}

BOOST_AUTO_TEST_CASE(a_vgpus_recovery_is_changed_while_it_runs) {
  join("a");
  join("b");
  auto lease = open("a", {0.25, gib, 1, protection::journal});
  BOOST_TEST(lease.recovery.within_ms == 2'000u);
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  set_vgpu what{lease.vgpu};
  what.recover_within_ms = 500;
  what.change_protect_cost = what.change_on_divergence = true;
  what.protect_cost = 0;
  what.on_divergence = divergence::error;
  say("cmd", "command/1", what, 4);
  BOOST_TEST(take<done>(out, "cmd").has_value());
  auto told = leased();
  BOOST_REQUIRE(told);
  BOOST_CHECK(told->epoch == lease.epoch);
  auto changed = recovery_terms{500, 0, divergence::error};
  BOOST_CHECK(told->recovery == changed);
  BOOST_TEST(status()["vgpus"][0]["recover_within"] == 0.5);
  // What is not named stays, and the next worker's lease says the same.
  say("cmd", "command/1", set_vgpu{lease.vgpu, 0.5}, 4);
  BOOST_TEST(!leased());
  say("n-a", "node/a", shutdown{});
  started("b", *ordered("b"));
  auto next = leased();
  BOOST_REQUIRE(next);
  BOOST_TEST(next->epoch.value > lease.epoch.value);
  BOOST_CHECK(next->recovery == changed);
}

/// The lease with the recovery would bring the quota, too.
BOOST_AUTO_TEST_CASE(a_recovery_is_told_with_a_quota_that_waits) {
  join("a");
  auto lease = open("a", {0.25, gib, 1, protection::journal});
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  set_vgpu what{lease.vgpu, 0, 0, 2 * gib};
  say("cmd", "command/1", what, 4);
  what = {lease.vgpu};
  what.recover_within_ms = 500;
  say("cmd", "command/1", what, 4);
  BOOST_TEST(!leased());
  session_load load{lease.session, lease.epoch, 0, 0, 0, 0, 0, 2 * gib};
  say("n-a", "node/a", node_beat{"a", 1, {load}});
  auto told = leased();
  BOOST_REQUIRE(told);
  BOOST_TEST(told->quota == 2 * gib);
  BOOST_TEST(told->recovery.within_ms == 500u);
}

BOOST_AUTO_TEST_CASE(a_replay_gets_the_largest_quota_ever_granted) {
  join("a");
  join("b");
  auto lease = open("a", {1, 2 * gib, 1, protection::journal});
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", set_vgpu{lease.vgpu, 0, 0, gib, false, 0}, 4);
  BOOST_TEST(leased()->quota == gib);
  say("n-a", "node/a", shutdown{});
  auto order = ordered("b");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->quota == 2 * gib);
  started("b", *order);
  BOOST_TEST(leased()->quota == gib);
}

BOOST_AUTO_TEST_CASE(an_impossible_change_is_refused) {
  join("a");
  auto lease = open("a", {0.5, gib, 1, protection::journal});
  connect("d");
  ask({0.5, 2 * gib, 1, protection::journal}, "d");
  started("a", *ordered("a"));
  session_load load{lease.session, lease.epoch, gib / 2, 0, 0, 0, 0, gib};
  say("n-a", "node/a", node_beat{"a", 1, {load}});
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  auto no = [&](set_vgpu what, const std::string& word) {
    say("cmd", "command/1", what, 4);
    auto why = refused("cmd");
    BOOST_TEST(why.find(word) != std::string::npos, why);
  };
  auto vgpu = lease.vgpu;
  no({{99}, 0.5, 0, 0, false, 0}, "no vGPU 99");
  no({vgpu, 1.5, 0, 0, false, 0}, "share");
  no({vgpu, 0, -1, 0, false, 0}, "limit");
  no({vgpu, 0, 0, 0, true, 5000}, "priority");
  no({vgpu, 0, 0, gib / 4, false, 0}, "has allocated 512 MiB");
  no({vgpu, 0, 0, 3 * gib, false, 0}, "2048 MiB are promised to others");
  set_vgpu recovery{vgpu};
  recovery.recover_within_ms = 49;
  no(recovery, "recover-within 49 ms");
  recovery.recover_within_ms = 86'400'001;
  no(recovery, "recover-within");
  recovery.recover_within_ms = 0;
  recovery.change_protect_cost = true;
  for (auto cost : {-1.0, 100.5, std::numeric_limits<double>::quiet_NaN()}) {
    recovery.protect_cost = cost;
    no(recovery, "protect-cost");
  }
  BOOST_TEST(!to_node<resize_session>(*this, "a"));
  BOOST_TEST(!leased());
}

BOOST_AUTO_TEST_CASE(a_pgpus_policy_is_checked_and_passed_on) {
  join("a");
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  auto no = [&](set_policy what, const std::string& word) {
    say("cmd", "command/1", what, 4);
    auto why = refused("cmd");
    BOOST_TEST(why.find(word) != std::string::npos, why);
  };
  no({"z", 0, "equal", 0}, "no node 'z'");
  no({"a", 7, "equal", 0}, "no pGPU 7");
  no({"a", 0, "fair", 0}, "best-effort");
  no({"a", 0, "", 10}, "quantum");
  no({"a", 0, "", 2'000'000}, "quantum");
  BOOST_TEST(!to_node<set_policy>(*this, "a"));
  say("cmd", "command/1", set_policy{"a", 0, "equal", 5000}, 4);
  BOOST_TEST(take<done>(out, "cmd").has_value());
  BOOST_TEST(to_node<set_policy>(*this, "a")->quantum_us == 5000u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(constraints, cluster)

BOOST_AUTO_TEST_CASE(a_place_satisfies_the_constraints) {
  join("a", 2);
  join("b", 2, "elsewhere");
  connect();
  auto place_of = [&](specification spec) {
    ask(spec);
    for (std::string node : {"a", "b"})
      if (auto order = ordered(node))
        return node + std::to_string(order->pgpus.at(0));
    return std::string{"none"};
  };
  specification spec;
  spec.node = "b";
  spec.pgpu = 1;
  BOOST_TEST(place_of(spec) == "b1");
  specification beside;
  beside.beside = {1};
  BOOST_TEST(place_of(beside) == "b1");
  specification apart;
  apart.apart = {1};
  apart.node = "b";
  BOOST_TEST(place_of(apart) == "b0");
  specification local;
  local.where = locality::local_only;
  local.node = "b";
  BOOST_TEST(place_of(local) == "none");
  specification other;
  other.backend = "nvidia";
  BOOST_TEST(place_of(other) == "none");
  auto told = [&](const char* what) {
    auto waiting = status()["vgpus"];
    auto why = waiting.back()["sessions"][0]["waiting_because"];
    return why.get<std::string>().find(what) != std::string::npos;
  };
  BOOST_TEST(told("nvidia"));
  specification newer;
  newer.capability = 90;
  BOOST_TEST(place_of(newer) == "none");
  BOOST_TEST(told("compute capability 9.0"));
  newer.capability = 86;
  BOOST_TEST(place_of(newer) != "none");
}

BOOST_AUTO_TEST_CASE(a_group_is_placed_on_its_own_pgpus) {
  join("a", 2);
  join("b", 2);
  connect();
  std::map<std::string, std::vector<running_session>> there;
  auto place_of = [&](std::uint64_t group) {
    specification spec;
    spec.group = group;
    ask(spec);
    for (std::string node : {"a", "b"})
      if (auto order = ordered(node)) {
        started(node, *order);
        there[node].push_back(running(node, *order));
        return node + std::to_string(order->pgpus.at(0));
      }
    return std::string{"none"};
  };
  BOOST_TEST(place_of(0) == "a0");
  BOOST_TEST(place_of(7) == "a1");
  BOOST_TEST(place_of(0) == "b0");
  BOOST_TEST(place_of(7) == "a1");
  BOOST_TEST(place_of(8) == "b1");
  BOOST_TEST(place_of(7) == "a1");
  BOOST_TEST(place_of(8) == "b1");
  // Groups survive the manager.
  restart();
  for (auto& [node, sessions] : there) {
    auto x = inventory(node, 2);
    x.sessions = sessions;
    join(x);
  }
  connect();
  BOOST_TEST(place_of(8) == "b1");
  BOOST_TEST(place_of(7) == "a1");
}

BOOST_AUTO_TEST_CASE(the_queue_is_ordered_by_priority_and_age) {
  join("a");
  auto first = open("a", {1, 4 * gib, 1, protection::journal});
  auto asked = [](std::uint64_t memory, std::int32_t priority) {
    specification spec;
    spec.memory = memory;
    spec.priority = priority;
    return spec;
  };
  ask(asked(3 * gib, 0)); // session 2
  ask(asked(3 * gib, 5)); // session 3
  ask(asked(3 * gib, 5)); // session 4
  BOOST_TEST(!ordered("a"));
  auto next = [&](const lease& gone) {
    say("c", "client/c", close_session{gone.session, gone.epoch, "exit"});
    auto order = ordered("a");
    BOOST_REQUIRE(order);
    started("a", *order);
    return *leased("c", 5);
  };
  auto second = next(first);
  BOOST_TEST(second.session.value == 3u);
  auto third = next(second);
  BOOST_TEST(third.session.value == 4u);
  BOOST_TEST(next(third).session.value == 2u);
}

BOOST_AUTO_TEST_CASE(small_requests_fill_gaps_and_delay_no_other) {
  join("a", 2);
  auto ask_for = [&](std::uint64_t memory) {
    ask({1, memory, 1, protection::journal});
    auto order = ordered("a");
    if (order)
      started("a", *order);
    return order;
  };
  connect();
  auto large = ask_for(3 * gib); // on one pGPU
  auto other = ask_for(2 * gib); // on the other
  BOOST_REQUIRE(large && other);
  BOOST_TEST(!ask_for(4 * gib)); // waits for the pGPU that lacks least
  auto told = test::take<event>(out, "c");
  BOOST_REQUIRE(told);
  BOOST_TEST(told->second == 5u); // of the request that waits
  BOOST_TEST(told->first.text.find("a pGPU 1 lacks 2048 MiB (2048 MiB of 4096 "
                                   "MiB are promised), a pGPU 0 lacks 3072") !=
             std::string::npos);
  // A request that fits without reserved memory does not wait.
  auto small = ask_for(gib);
  BOOST_REQUIRE(small);
  BOOST_TEST(small->pgpus == large->pgpus);
  // A request that needs reserved memory waits.
  BOOST_TEST(!ask_for(gib));
  auto why = [&](std::size_t vgpu) {
    return status()["vgpus"][vgpu]["sessions"][0]["waiting_because"]
        .get<std::string>();
  };
  BOOST_TEST(why(2).find("a pGPU 0 lacks 4096 MiB") != std::string::npos);
  BOOST_TEST(
      why(4).find("a pGPU 1 is reserved for a program ahead in the queue") !=
      std::string::npos);
  BOOST_TEST(count("session-waiting") == 2u); // one for each
  say("c", "client/c", close_session{other->session, other->epoch, "exit"});
  auto kept = ordered("a");
  BOOST_REQUIRE(kept);
  BOOST_TEST(kept->session.value == 3u);
  BOOST_TEST(kept->pgpus == other->pgpus);
}

BOOST_AUTO_TEST_CASE(a_request_that_does_not_wait_is_refused_at_once) {
  join("a");
  connect();
  specification spec;
  spec.node = "z";
  spec.wait_ms = 0;
  ask(spec);
  auto why = refused("c");
  BOOST_TEST(why.find("of node z") != std::string::npos);
  BOOST_TEST(why.find("no room now, and it was not to wait") !=
             std::string::npos);
  BOOST_TEST(why.find("0 ms") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_request_is_refused_when_its_waiting_time_ends) {
  join("a");
  connect();
  specification spec;
  spec.node = "z";
  spec.wait_ms = 300;
  ask(spec);
  live(200ms, {"a"});
  BOOST_TEST(refused("c").empty());
  live(200ms, {"a"});
  BOOST_TEST(refused("c").find("within 300 ms") != std::string::npos);
  live(100ms, {"a"});
  BOOST_TEST(status()["vgpus"].empty());
}

BOOST_AUTO_TEST_CASE(a_request_placed_in_time_is_not_refused) {
  join("a");
  connect();
  specification spec;
  spec.node = "z";
  spec.wait_ms = 300;
  ask(spec);
  join("z");
  started("z", *ordered("z"));
  BOOST_TEST(leased("c", 5).has_value());
  live(1s, {"a", "z"});
  BOOST_TEST(refused("c").empty());
}

// -- programs that wait longer than a manager lives ---------------------------

namespace {

struct patient : cluster {
  static specification half(std::uint32_t wait_ms = wait_for_ever) {
    specification out;
    out.memory = 3 * gib;
    out.wait_ms = wait_ms;
    return out;
  }
  void asks(const std::string& peer, std::uint32_t waited_ms,
            specification spec = half()) {
    connect(peer);
    acquire what{std::move(spec), {"prog", 9, "h", "me"}};
    what.waited_ms = waited_ms;
    say(peer, "client/" + peer, what, 5);
  }
  /// Returns which client gets the next free place.
  std::string next(const std::string& node = "a") {
    auto order = ordered(node);
    if (!order)
      return "nobody";
    started(node, *order);
    for (auto* peer : {"early", "late"})
      if (leased(peer, 5))
        return peer;
    return "?";
  }
  void ends(const lease& x) {
    say("c", "client/c", close_session{x.session, x.epoch, "over"});
  }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(ages_of_requests_outlive_the_manager, patient) {
  for (auto keep : {true, false}) {
    join("a");
    auto x = open("a", half());
    restart(keep);
    connect();
    auto all = inventory("a");
    all.sessions.push_back(
        {x.session, x.epoch, x.vgpu, x.pgpus, endpoints("a"), 77});
    join(all);
    auto told = adoption(x);
    told.specification = half();
    say("c", "client/c", told, 6);
    // The younger request reaches the new manager first.
    asks("late", 1'000);
    asks("early", 3'600'000);
    BOOST_TEST(next() == "nobody");
    ends(x);
    BOOST_TEST(next() == "early");
    restart(false);
  }
}

BOOST_FIXTURE_TEST_CASE(any_age_of_a_request_is_accepted, patient) {
  constexpr auto ever = std::numeric_limits<std::uint32_t>::max();
  join("a");
  auto x = open("a", half());
  asks("late", ever - 1);
  asks("early", ever);
  live(1s, {"a"});
  ends(x);
  BOOST_TEST(next() == "early");
  // Its waiting time ended long ago.
  asks("c", ever, half(1'000));
  live(2s, {"a"});
  BOOST_TEST(refused("c").find("within 1000 ms") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(the_lowest_priority_comes_last, patient) {
  join("a");
  auto x = open("a", half());
  auto last = half();
  last.priority = std::numeric_limits<std::int32_t>::min();
  asks("late", 3'600'000, last);
  asks("early", 0);
  ends(x);
  BOOST_TEST(next() == "early");
}

BOOST_FIXTURE_TEST_CASE(a_waiting_time_continues_with_the_next_manager,
                        patient) {
  join("a");
  restart();
  // The nodes have not registered yet.
  asks("early", 59'000, half(60'000));
  asks("late", 61'000, half(60'000));
  BOOST_TEST(refused("late") == "");
  join("a");
  BOOST_TEST(next() == "late");
  live(2100ms, {"a"});
  BOOST_TEST(refused("early").find("within 60000 ms") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_request_repeated_after_a_reconnect_waits_once,
                        patient) {
  join("a");
  auto x = open("a", half());
  asks("early", 0);
  live(1s, {"a"});
  asks("late", 0);
  tell(chief, test::gone("early"));
  asks("early", 1'000);
  BOOST_TEST(status()["vgpus"].size() == 3u);
  ends(x);
  BOOST_TEST(next() == "early");
}

BOOST_FIXTURE_TEST_CASE(a_session_that_its_client_does_not_claim_ends,
                        patient) {
  join("a");
  auto x = open("a");
  auto y = open("a");
  say("c", "client/c", paused{x.session, x.epoch, "", 1, 1});
  say("c", "client/c", paused{y.session, y.epoch, "", 1, 1});
  // One program ends while the client is not connected.
  tell(chief, test::gone("c"));
  connect();
  claim(y);
  live(6s, {"a"});
  BOOST_TEST(status()["vgpus"].size() == 1u);
  BOOST_TEST(count("session-closed") == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
