// One of several managers, as the cluster's peers see it.
#include "tests/unit/actors/manager/election/fake_etcd.hpp"
#include "tests/unit/actors/manager_fixture.hpp"

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr auto term_of_epochs = std::uint64_t{1'000'000'000};

struct rivals : cluster {
  std::shared_ptr<fake_etcd> etcd = std::make_shared<fake_etcd>();

  rivals() : cluster(false) {}

  /// Stands as a candidate; with a store unless it lies elsewhere.
  void stand(bool keep = true) {
    auto link = spawn(test::fake_link, &out);
    candidacy how;
    how.election.endpoint = "tcp://here";
    how.etcd = std::make_shared<fake_access>(etcd, [this] { return now(); });
    chief = spawn(manager_candidate, options(), open_store(keep), link, how);
    run();
  }

  /// Another leads for a while, and this one again.
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

  /// A node that was here before says hello and registers again.
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

BOOST_AUTO_TEST_CASE(a_manager_that_is_alone_has_no_term) {
  start();
  connect();
  BOOST_TEST(told<welcome>("c")->term == 0u);
  join("a");
  auto got = open("a");
  BOOST_TEST(got.epoch.value == 1u);
  BOOST_TEST(got.session.value == 1u);
  BOOST_TEST(!status()["manager"]["nodes_may_come"].get<bool>());
}

BOOST_AUTO_TEST_CASE(who_leads_welcomes_in_its_term) {
  stand();
  connect();
  auto got = told<welcome>("c");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->term == 1u);
  auto all = status();
  BOOST_TEST(all["manager"]["leads"] == true);
  BOOST_TEST(all["manager"]["term"] == 1u);
}

BOOST_AUTO_TEST_CASE(who_stands_by_says_who_leads) {
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
  // No answer is due.
  say("c", "client/c", close_session{{1}, {1}, ""});
  BOOST_TEST(out.empty());
}

BOOST_AUTO_TEST_CASE(who_said_hello_to_a_standby_is_welcomed_when_it_leads) {
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

BOOST_AUTO_TEST_CASE(who_leads_no_more_tells_everybody) {
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

BOOST_AUTO_TEST_CASE(
    what_a_frozen_leader_finds_in_its_mailbox_it_leaves_alone) {
  stand();
  join("a");
  join("b");
  auto got = open("a");
  out.clear();
  // While it stands still it is asked for a vGPU, told that a worker died, and
  // its nodes fall silent.
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

BOOST_AUTO_TEST_CASE(epochs_grow_beyond_those_that_nobody_told_of) {
  stand();
  join("a");
  auto first = open("a");
  BOOST_TEST(first.epoch.value == term_of_epochs + 1);
  lead_in_turn();
  // The one in between placed it anew, several times; its client has not heard.
  rejoin("a", {});
  claim(first);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->session.value == first.session.value);
  BOOST_TEST(order->epoch.value == 3 * term_of_epochs + 1);
}

BOOST_AUTO_TEST_CASE(a_store_that_others_made_old_is_not_believed) {
  stand();
  join("a");
  open("a");
  lead_in_turn();
  BOOST_TEST(sessions().empty());
  // But it knows what was before.
  BOOST_TEST(count("session-opened") == 1u);
  BOOST_TEST(count("manager-leads") == 2u);
}

BOOST_AUTO_TEST_CASE(a_store_that_nobody_made_old_is) {
  stand();
  join("a");
  auto got = open("a");
  // Nobody else is there to lead.
  etcd->release();
  advance(1s);
  BOOST_TEST(etcd->kept().term == 2u);
  auto all = sessions();
  BOOST_REQUIRE(all.size() == 1u);
  BOOST_TEST(all[0]["id"] == got.session.value);
}

BOOST_AUTO_TEST_CASE(a_running_session_is_taken_over_as_it_is) {
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

BOOST_AUTO_TEST_CASE(what_was_set_since_is_told_again) {
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

BOOST_AUTO_TEST_CASE(what_is_suspended_stays_so) {
  stand();
  join("a");
  auto got = open("a");
  auto old = running("a", {got.session, got.vgpu, got.epoch, got.token,
                           got.pgpus, 0, protection::journal, "prog"});
  for (auto held : {true, false}) {
    lead_in_turn();
    // Its worker has not quite ended.
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

BOOST_AUTO_TEST_CASE(who_is_held_when_it_was_suspended_already_stays_so) {
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

BOOST_AUTO_TEST_CASE(no_number_is_given_twice) {
  stand();
  join("a");
  auto before = open("a");
  lead_in_turn();
  rejoin("a", {});
  ask({}, "c", 8);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  // The first ten thousand were its own, the next the other's.
  BOOST_TEST(order->session.value == 20'001u);
  BOOST_TEST(order->vgpu.value == 20'001u);
}

BOOST_AUTO_TEST_CASE(who_names_a_number_that_nobody_gave_uses_none_up) {
  stand();
  join("a");
  connect();
  lease made_up;
  made_up.session = {~0ull - 5};
  made_up.vgpu = {~0ull - 5};
  made_up.epoch = {1};
  claim(made_up);
  // Nor what is in use.
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

BOOST_AUTO_TEST_CASE(numbers_never_run_out) {
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

BOOST_AUTO_TEST_CASE(drained_nodes_stay_so) {
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

BOOST_AUTO_TEST_CASE(a_program_that_comes_before_the_nodes_waits_for_them) {
  stand();
  connect();
  ask();
  BOOST_TEST(refused("c").empty());
  join("a");
  BOOST_TEST(ordered("a").has_value());
}

BOOST_AUTO_TEST_CASE(where_no_node_comes_it_is_told_so) {
  stand();
  connect();
  ask();
  BOOST_TEST(status()["manager"]["nodes_may_come"].get<bool>());
  advance(2100ms);
  BOOST_TEST(!status()["manager"]["nodes_may_come"].get<bool>());
  BOOST_TEST(refused("c").find("no node") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(who_is_told_to_end_leaves_the_lead_first) {
  stand();
  connect();
  out.clear();
  tell(chief, manager_resign{});
  BOOST_TEST(told<redirect>("c").has_value());
  BOOST_TEST(!etcd->leader(now()).has_value());
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(so_does_one_that_a_command_ends) {
  stand();
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", shutdown{}, 2);
  BOOST_TEST(!etcd->leader(now()).has_value());
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_SUITE_END()
