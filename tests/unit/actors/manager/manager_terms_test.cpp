// One of several managers, as nodes, clients and commands see it.
#include "tests/unit/actors/manager/election/fake_etcd.hpp"
#include "tests/unit/actors/manager_fixture.hpp"

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr auto term_of_epochs = std::uint64_t{1'000'000'000};

struct rivals : cluster {
  std::shared_ptr<fake_etcd> etcd = std::make_shared<fake_etcd>();

  rivals() : cluster(false) {}

  /// Starts this manager as a candidate, with or without a store.
  void stand(bool keep = true) {
    auto link = spawn(test::fake_link, &out);
    candidacy how;
    how.election.endpoint = "tcp://here";
    how.etcd = std::make_shared<fake_access>(etcd, [this] { return now(); });
    chief = spawn(manager_candidate, options(), open_store(keep), link, how);
    run();
  }

  /// Lets another manager lead for a while, and then this one again.
  void lead_in_turn() {
    etcd->release();
    etcd->seize(now());
    advance(3s);
    out.clear();
    etcd->release();
    advance(200ms);
  }

  template <class T>
  std::optional<T> told(const std::string& peer) {
    auto got = take<T>(out, peer);
    return got ? std::optional{got->first} : std::nullopt;
  }

  /// Registers a known node again.
  void rejoin(const std::string& name, std::vector<running_session> runs) {
    auto x = inventory(name);
    x.sessions = std::move(runs);
    say("n-" + name, "node/" + name, x, 1);
  }

  nlohmann::json sessions() {
    auto all = nlohmann::json::array();
    auto now = status();
    for (auto& vgpu : now["vgpus"])
      for (auto& x : vgpu["sessions"])
        all.push_back(x);
    return all;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(terms, rivals)

BOOST_AUTO_TEST_CASE(a_single_manager_has_no_term) {
  start();
  connect();
  BOOST_TEST(told<welcome>("c")->term == 0u);
  join("a");
  auto got = open("a");
  BOOST_TEST(got.epoch.value == 1u);
  BOOST_TEST(got.session.value == 1u);
  BOOST_TEST(!status()["manager"]["nodes_may_come"].get<bool>());
}

BOOST_AUTO_TEST_CASE(a_leader_names_its_term_in_its_welcome) {
  stand();
  connect();
  auto got = told<welcome>("c");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->term == 1u);
  auto all = status();
  BOOST_TEST(all["manager"]["leads"] == true);
  BOOST_TEST(all["manager"]["term"] == 1u);
}

BOOST_AUTO_TEST_CASE(a_standby_names_the_leader) {
  etcd->seize(now());
  stand();
  connect();
  BOOST_TEST(!told<welcome>("c"));
  auto other = told<redirect>("c");
  BOOST_REQUIRE(other);
  BOOST_TEST(other->leader == "tcp://rival");
  BOOST_TEST(other->term == 1u);
  ask();
  BOOST_TEST(take<redirect>(out, "c")->second == 5u);
  // This message gets no answer.
  say("c", "client/c", close_session{{1}, {1}, ""});
  BOOST_TEST(out.empty());
}

BOOST_AUTO_TEST_CASE(a_new_leader_welcomes_the_peers_it_had_as_standby) {
  etcd->seize(now());
  stand();
  connect("c");
  connect("gone");
  tell(chief, gone("gone"));
  out.clear();
  etcd->release();
  advance(200ms);
  BOOST_TEST(told<welcome>("c")->term == 2u);
  BOOST_TEST(!told<welcome>("gone"));
}

BOOST_AUTO_TEST_CASE(a_manager_that_loses_the_lead_redirects_its_peers) {
  stand();
  connect();
  out.clear();
  etcd->release();
  etcd->seize(now());
  advance(1s);
  BOOST_TEST(told<redirect>("c").has_value());
  ask();
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(a_frozen_leader_executes_nothing_from_its_mailbox) {
  stand();
  join("a");
  join("b");
  auto got = open("a");
  out.clear();
  // While it is frozen, a client requests a vGPU, a node reports a worker's
  // end, and its nodes fall silent.
  caf::anon_send(
      chief, letter("c", "client/c", acquire{{}, {"prog", 9, "h", "me"}}, 7));
  caf::anon_send(chief,
                 letter("n-a", "node/a",
                        worker_exited{got.session, got.epoch, "9", false}));
  leap(10s);
  etcd->seize(now());
  run();
  for (const auto& x : out)
    BOOST_TEST((std::holds_alternative<redirect>(x.what.body) ||
                std::holds_alternative<beat_ack>(x.what.body)));
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(!ordered("b"));
  BOOST_TEST(take<redirect>(out, "c").has_value());
}

BOOST_AUTO_TEST_CASE(epochs_exceed_those_of_terms_in_between) {
  stand();
  join("a");
  auto first = open("a");
  BOOST_TEST(first.epoch.value == term_of_epochs + 1);
  lead_in_turn();
  // The leader in between may have placed the session again without its
  // client's knowledge.
  rejoin("a", {});
  claim(first);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->session.value == first.session.value);
  BOOST_TEST(order->epoch.value == 3 * term_of_epochs + 1);
}

BOOST_AUTO_TEST_CASE(sessions_in_an_outdated_store_are_not_used) {
  stand();
  join("a");
  open("a");
  lead_in_turn();
  BOOST_TEST(sessions().empty());
  // Its events are kept.
  BOOST_TEST(count("session-opened") == 1u);
  BOOST_TEST(count("manager-leads") == 2u);
}

BOOST_AUTO_TEST_CASE(sessions_in_a_current_store_are_used) {
  stand();
  join("a");
  auto got = open("a");
  // There is no other candidate.
  etcd->release();
  advance(1s);
  BOOST_TEST(etcd->kept().term == 2u);
  auto all = sessions();
  BOOST_REQUIRE(all.size() == 1u);
  BOOST_TEST(all[0]["id"] == got.session.value);
}

BOOST_AUTO_TEST_CASE(a_running_session_is_taken_over_unchanged) {
  stand();
  join("a");
  auto got = open("a");
  lead_in_turn();
  auto x = running("a", {got.session, got.vgpu, got.epoch, got.token, got.pgpus,
                         0, protection::journal, "prog"});
  for (auto client_first : {false, true}) {
    if (client_first)
      lead_in_turn();
    if (client_first)
      claim(got);
    rejoin("a", {x});
    if (!client_first)
      claim(got);
    auto again = told<lease>("c");
    BOOST_REQUIRE(again);
    BOOST_TEST(again->epoch.value == got.epoch.value);
    BOOST_TEST(again->token == got.token);
    BOOST_TEST(!told<stop_worker>("n-a"));
    BOOST_REQUIRE(sessions().size() == 1u);
    BOOST_TEST(sessions()[0]["state"] == "running");
    out.clear();
  }
}

BOOST_AUTO_TEST_CASE(changes_to_a_vgpu_reach_the_next_leader) {
  stand();
  join("a");
  specification spec;
  spec.memory = gib;
  auto got = open("a", spec);
  for (auto client_first : {false, true}) {
    lead_in_turn();
    auto x = running("a", {got.session, got.vgpu, got.epoch, got.token,
                           got.pgpus, 0, protection::journal, "prog"});
    x.share = 0.25;
    x.limit = 0.5;
    x.priority = 7;
    adopt mine{got.session, got.vgpu, got.epoch,
               got.token,   spec,     {"prog", 9, "h", "me"},
               "a",         gib / 2};
    if (client_first)
      say("c", "client/c", mine, 6);
    rejoin("a", {x});
    if (!client_first)
      say("c", "client/c", mine, 6);
    auto now = status();
    BOOST_REQUIRE(now["vgpus"].size() == 1u);
    auto& vgpu = now["vgpus"][0];
    BOOST_TEST(vgpu["share"] == 0.25);
    BOOST_TEST(vgpu["limit"] == 0.5);
    BOOST_TEST(vgpu["priority"] == 7);
    BOOST_TEST(vgpu["memory"] == gib / 2);
    BOOST_TEST(vgpu["sessions"][0]["quota"] == gib / 2);
  }
}

BOOST_AUTO_TEST_CASE(a_suspended_session_stays_suspended) {
  stand();
  join("a");
  auto got = open("a");
  auto old = running("a", {got.session, got.vgpu, got.epoch, got.token,
                           got.pgpus, 0, protection::journal, "prog"});
  for (auto held : {true, false}) {
    lead_in_turn();
    // Its worker has not ended yet.
    rejoin("a", {old});
    auto has = adoption(got);
    has.suspended = true;
    has.held = held;
    say("c", "client/c", has, 6);
    rejoin("a", {old});
    BOOST_TEST(!ordered("a"));
    BOOST_TEST(!told<lease>("c"));
    auto all = sessions();
    BOOST_REQUIRE(all.size() == 1u);
    BOOST_TEST(all[0]["state"] == "suspended");
    BOOST_TEST(all[0]["held"] == held);
    say("c", "client/c", wake_session{got.session});
    auto order = ordered("a");
    BOOST_TEST(order.has_value() == !held);
    if (order)
      BOOST_TEST(order->epoch.value > 4 * term_of_epochs);
  }
}

BOOST_AUTO_TEST_CASE(a_suspended_session_that_is_held_later_stays_held) {
  stand();
  join("a");
  auto got = open("a");
  auto suspend = [&](bool hold) {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", suspend_vgpu{got.vgpu, hold}, 7);
    return told<pause_session>("c");
  };
  BOOST_TEST(suspend(false).has_value());
  say("c", "client/c", paused{got.session, got.epoch, "", 1 << 20, 2.5});
  auto last = suspend(true);
  BOOST_TEST(told<done>("cmd").has_value());
  lead_in_turn();
  rejoin("a", {});
  auto has = adoption(got);
  has.suspended = true;
  has.held = last && last->hold;
  say("c", "client/c", has, 6);
  say("c", "client/c", wake_session{got.session});
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(sessions()[0]["held"] == true);
}

BOOST_AUTO_TEST_CASE(a_checkpointed_process_is_restored_under_another_leader) {
  stand();
  join("a");
  auto got = open("a");
  auto old = running("a", {got.session, got.vgpu, got.epoch, got.token,
                           got.pgpus, 0, protection::journal, "prog"});
  for (auto client_first : {false, true}) {
    lead_in_turn();
    auto has = adoption(got);
    has.suspended = has.process_checkpointed = true;
    if (client_first)
      say("c", "client/c", has, 6);
    rejoin("a", {old});
    if (!client_first)
      say("c", "client/c", has, 6);
    BOOST_TEST(sessions()[0]["state"] == "suspended");
    say("c", "client/c", wake_session{got.session});
    BOOST_TEST(!ordered("a"));
    BOOST_TEST(told<restore_process>("c").has_value());
    BOOST_TEST(sessions()[0]["state"] == "running");
  }
}

BOOST_AUTO_TEST_CASE(no_session_number_is_used_twice) {
  stand();
  join("a");
  auto before = open("a");
  lead_in_turn();
  rejoin("a", {});
  ask({}, "c", 8);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  // The first ten thousand numbers were this manager's, and the next the other
  // leader's.
  BOOST_TEST(order->session.value == 20'001u);
  BOOST_TEST(order->vgpu.value == 20'001u);
}

BOOST_AUTO_TEST_CASE(an_invented_session_number_uses_up_no_numbers) {
  stand();
  join("a");
  connect();
  lease made_up;
  made_up.session = {~0ull - 5};
  made_up.vgpu = {~0ull - 5};
  made_up.epoch = {1};
  claim(made_up);
  // Neither does a number in use.
  made_up.session = {1};
  made_up.vgpu = {1};
  claim(made_up);
  out.clear();
  ask({}, "c", 8);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->session.value == 2u);
  BOOST_TEST(etcd->kept().numbers == numbers_at_a_time);
}

BOOST_AUTO_TEST_CASE(numbers_are_granted_again_when_etcd_has_room) {
  stand();
  join("a");
  connect();
  etcd->full = true;
  for (auto i = 0u; i < numbers_at_a_time; ++i) {
    ask({}, "c", 8);
    auto got = ordered("a");
    BOOST_REQUIRE(got);
    say("c", "client/c", close_session{got->session, got->epoch, ""});
    out.clear();
  }
  ask({}, "c", 8);
  BOOST_TEST(refused("c").find("numbers") != std::string::npos);
  etcd->full = false;
  live(1s, {"a"});
  ask({}, "c", 8);
  auto got = ordered("a");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->session.value == numbers_at_a_time + 1);
}

BOOST_AUTO_TEST_CASE(drained_nodes_stay_drained) {
  stand();
  join("a");
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", drain_node{"a", false}, 2);
  BOOST_TEST(etcd->kept().drained.contains("a"));
  etcd->kept().drained.insert("b");
  lead_in_turn();
  rejoin("a", {});
  join("b");
  auto all = status();
  for (auto& node : all["nodes"])
    BOOST_TEST(node["draining"] == true);
}

BOOST_AUTO_TEST_CASE(a_program_waits_for_nodes_that_may_yet_register) {
  stand();
  connect();
  ask();
  BOOST_TEST(refused("c").empty());
  join("a");
  BOOST_TEST(ordered("a").has_value());
}

BOOST_AUTO_TEST_CASE(a_program_is_refused_if_no_node_registers) {
  stand();
  connect();
  ask();
  BOOST_TEST(status()["manager"]["nodes_may_come"].get<bool>());
  advance(2100ms);
  BOOST_TEST(!status()["manager"]["nodes_may_come"].get<bool>());
  BOOST_TEST(refused("c").find("no node") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_leader_that_is_ended_resigns_first) {
  stand();
  connect();
  out.clear();
  tell(chief, manager_resign{});
  BOOST_TEST(told<redirect>("c").has_value());
  BOOST_TEST(!etcd->leader(now()).has_value());
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(a_leader_that_a_command_ends_resigns_first) {
  stand();
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", shutdown{}, 2);
  BOOST_TEST(!etcd->leader(now()).has_value());
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_SUITE_END()
