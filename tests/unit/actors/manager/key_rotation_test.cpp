#include "tests/unit/actors/keyed_cluster.hpp"

#include <map>

using namespace vgpu;
using namespace vgpu::control;
using test::keyed_cluster;
using test::of_biology;
using test::of_physics;
using test::take;

namespace {

const principal node_a{principal::kind::node, "a", {}, std::string(40, 'n')};
const std::string next_manager(40, 'm');

/// A manager whose keys can rotate.
struct rotating_cluster : keyed_cluster {
  std::map<std::string, rotate_key> due;
  std::vector<std::string> renewed;
  std::shared_ptr<permitted_keys> permitted = std::make_shared<permitted_keys>(
      permitted_keys::table{{of_physics.key, of_physics}});

  rotating_cluster() : keyed_cluster(false) {
    auto with_keys = options();
    with_keys.rotation =
        [this](const principal& who) -> std::optional<rotate_key> {
      auto i = due.find(who.name);
      return i == due.end() ? std::nullopt : std::optional{i->second};
    };
    with_keys.permitted = permitted;
    with_keys.renew = [this](const principal& who,
                             const renew_key& x) -> vgpu::status {
      if (x.number != 1)
        return fault{fault_kind::refused, "this rotation is over"};
      renewed.push_back(who.name + " " + x.key);
      due.erase(who.name);
      return {};
    };
    chief = spawn(manager, with_keys, open_store(true),
                  spawn(test::fake_link, &out));
    run();
  }

  /// Begins a rotation for these principals.
  void rotate(const std::vector<std::string>& names) {
    for (const auto& x : names)
      due[x] = {1, next_manager, 20};
    tell(chief, keys_rotated{});
  }

  void join_as_node(const std::string& peer) {
    greet_as(node_a, peer, "node/a", role::node);
    say_as(node_a, peer, "node/a", inventory("a"), 1);
  }

  lease open_as(const principal& who, const std::string& peer) {
    greet_as(who, peer, "client/1", role::client);
    say_as(who, peer, "client/1", acquire{{}, {"prog", 9, "h", "me"}}, 5);
    auto order = ordered("a");
    BOOST_REQUIRE(order);
    say_as(
        node_a, "n-a", "node/a",
        worker_started{order->session, order->epoch, endpoints("a"), 77, {}});
    auto got = leased(peer, 5);
    BOOST_REQUIRE(got);
    return *got;
  }
};

principal with_key(principal who, char key) {
  who.key = std::string(40, key);
  return who;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(key_rotations, rotating_cluster)

BOOST_AUTO_TEST_CASE(whoever_is_connected_or_connects_is_told) {
  join_as_node("n-a");
  greet_as(of_physics, "p", "client/1", role::client);
  BOOST_TEST(!take<rotate_key>(out, "n-a"));
  rotate({"a", "pat", "bo"});
  auto told = take<rotate_key>(out, "n-a");
  BOOST_REQUIRE(told);
  BOOST_TEST(told->first.manager == next_manager);
  BOOST_TEST(told->second == 0u);
  BOOST_TEST(take<rotate_key>(out, "p").has_value());
  greet_as(of_biology, "b", "command/1", role::command);
  BOOST_TEST(take<rotate_key>(out, "b").has_value());
  // Who is gone is not, and nobody is told twice without a reason.
  tell(chief, test::gone("p"));
  say_as(of_biology, "b", "command/1", status_request{}, 2);
  tell(chief, keys_rotated{});
  BOOST_TEST(!take<rotate_key>(out, "p"));
}

BOOST_AUTO_TEST_CASE(a_key_is_renewed_by_whom_it_names) {
  join_as_node("n-a");
  rotate({"a"});
  say_as(node_a, "n-a", "node/b", renew_key{1, std::string(40, 'x')}, 7);
  auto answer = take<done>(out, "n-a");
  while (answer && answer->second != 7)
    answer = take<done>(out, "n-a");
  BOOST_REQUIRE(answer);
  say_as(node_a, "n-a", "node/a", renew_key{2, std::string(40, 'y')}, 8);
  auto no = take<refusal>(out, "n-a");
  BOOST_REQUIRE(no);
  BOOST_TEST(no->second == 8u);
  // Without a key there is none to renew.
  say("s", "client/s", hello{1, 1, "t", role::client});
  say("s", "client/s", renew_key{1, std::string(40, 'z')}, 9);
  BOOST_TEST(take<refusal>(out, "s").has_value());
  BOOST_TEST(renewed == std::vector<std::string>{"a " + std::string(40, 'x')},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_node_that_connects_anew_is_itself_at_once) {
  join_as_node("n-a");
  auto got = open_as(of_physics, "p");
  out.clear();
  // The loss of its former connection is not known yet.
  greet_as(with_key(node_a, 'w'), "n-2", "node/a", role::node);
  auto again = inventory("a");
  again.sessions = {
      {got.session, got.epoch, got.vgpu, got.pgpus, got.worker, 77, 1, 1, 0}};
  say_as(with_key(node_a, 'w'), "n-2", "node/a", again, 3);
  BOOST_TEST(take<done>(out, "n-2").has_value());
  tell(chief, test::gone("n-a"));
  advance(options().liveness.reconnect_within * 2);
  say_as(with_key(node_a, 'w'), "n-2", "node/a", node_beat{"a", 1, {}, {}});
  auto session = status()["vgpus"][0]["sessions"][0];
  BOOST_TEST(session["epoch"] == 1);
  BOOST_TEST(session["state"] == "running");
}

BOOST_AUTO_TEST_CASE(a_renewed_key_takes_its_sessions_along) {
  join_as_node("n-a");
  auto got = open_as(of_physics, "p");
  rotate({"pat"});
  out.clear();
  auto next = with_key(of_physics, 'q');
  say_as(of_physics, "p", "client/1", renew_key{1, next.key}, 7);
  auto told = take<resize_session>(out, "n-a");
  BOOST_REQUIRE(told);
  BOOST_TEST(told->first.session.value == got.session.value);
  BOOST_TEST(told->first.client_key == next.key);
  BOOST_TEST(told->first.former_key == of_physics.key);
  BOOST_TEST(told->first.share == 0);
  // Its client did not come back before the former key ended.
  tell(chief, test::gone("p"));
  permitted->replace({{next.key, next}});
  tell(chief, std::make_shared<const link_event>(
                  link_event{link_event::kind::revoked, {}}));
  BOOST_TEST(!take<stop_worker>(out, "n-a"));
  greet_as(next, "q", "client/1", role::client);
  say_as(next, "q", "client/1", adoption(got), 6);
  BOOST_TEST(leased("q", 6).has_value());
}

BOOST_AUTO_TEST_CASE(a_worker_keeps_the_key_of_its_clients_connection) {
  join_as_node("n-a");
  auto got = open_as(of_physics, "p");
  BOOST_TEST(got.client_key == of_physics.key);
  out.clear();
  auto adopt_with = [&](char key, const std::string& as) {
    auto who = with_key(of_physics, key);
    std::string peer{key};
    greet_as(who, peer, as, role::client);
    say_as(who, peer, as, adoption(got), 6);
    auto lease = leased(peer, 6);
    BOOST_REQUIRE(lease);
    auto told = take<resize_session>(out, "n-a");
    BOOST_REQUIRE(told);
    BOOST_TEST(told->first.client_key == who.key);
    return std::pair{told->first.former_key, lease->client_key};
  };
  // Twice, and then it only connects again.
  for (auto key : {'q', 'r', 'r'}) {
    auto [former, of_lease] = adopt_with(key, "client/1");
    BOOST_TEST(former == of_physics.key);
    BOOST_TEST(of_lease == of_physics.key);
  }
  // Another client has connections of its own.
  auto [former, of_lease] = adopt_with('r', "client/2");
  BOOST_TEST(former.empty());
  BOOST_TEST(of_lease == std::string(40, 'r'));
}

BOOST_AUTO_TEST_SUITE_END()
