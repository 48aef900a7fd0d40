#include "actors/manager/cluster/key_rights.hpp"

#include "tests/unit/actors/keyed_cluster.hpp"

using namespace vgpu;
using namespace vgpu::control;
using test::keyed_cluster;
using test::of_biology;
using test::of_physics;
using test::take;

namespace {

const std::string client_key(40, 'c');
const principal a_node{principal::kind::node, "a", {}};
const principal a_tenant{principal::kind::tenant, "t", "t", client_key};
const principal an_admin{principal::kind::admin, "chief", "chief"};
const principal a_newcomer{principal::kind::newcomer, "token-1", "t"};

} // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_peers, keyed_cluster)

BOOST_AUTO_TEST_CASE(a_role_comes_from_the_key) {
  struct row {
    principal who;
    role as;
    std::string from;
    bool good;
  };
  const row rows[] = {
      {a_node, role::node, "node/a", true},
      {a_node, role::client, "client/a", false},
      {a_node, role::command, "command/1", false},
      {a_tenant, role::node, "node/a", false},
      {a_tenant, role::client, "client/1", true},
      {a_tenant, role::command, "command/1", true},
      {an_admin, role::node, "node/a", false},
      {an_admin, role::client, "client/1", true},
      {an_admin, role::command, "command/1", true},
      {a_newcomer, role::node, "node/a", false},
      {a_newcomer, role::client, "client/1", false},
      {a_newcomer, role::command, "command/1", false},
      // A name of another role.
      {a_tenant, role::client, "command/1", false},
      {an_admin, role::command, "client/1", false},
  };
  auto n = 0;
  for (const auto& x : rows) {
    auto peer = "p" + std::to_string(n++);
    greet_as(x.who, peer, x.from, x.as);
    BOOST_TEST_CONTEXT(x.who.name << " as " << x.from) {
      BOOST_TEST(take<welcome>(out, peer).has_value() == x.good);
      BOOST_TEST(take<refusal>(out, peer).has_value() != x.good);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_name_comes_from_the_key) {
  const std::tuple<principal, std::string, std::string> rows[] = {
      {a_node, "node/b", "node/a"},
      {a_node, "client/b", "node/a"},
      {a_tenant, "client/h-1", "client/t/h-1"},
      {a_tenant, "client/u/h-1", "client/t/u/h-1"},
      {a_tenant, "", "client/t"},
      {a_tenant, "command/1", "command/t/1"},
      {an_admin, "client/h-1", "client/chief/h-1"},
      {an_admin, "command/1", "command/chief/1"},
  };
  for (const auto& [who, said, name] : rows) {
    auto got =
        as_principal(std::make_shared<principal>(who), {said, 7, done{}});
    BOOST_REQUIRE(got.ok());
    BOOST_TEST(got->from == name);
    BOOST_TEST(got->request == 7u);
  }
}

BOOST_AUTO_TEST_CASE(a_node_does_not_take_the_place_of_another) {
  join("b");
  greet_as(a_node, "x", "node/b", role::node);
  say_as(a_node, "x", "node/b", inventory("b"), 1);
  BOOST_TEST(take<refusal>(out, "x").has_value());
}

BOOST_AUTO_TEST_CASE(only_an_admin_orders_the_cluster) {
  greet_as(a_tenant, "t", "command/1", role::command);
  greet_as(an_admin, "r", "client/1", role::client);
  const body orders[] = {
      inject_fault{}, set_policy{},    drain_node{},
      set_tenant{},   remove_tenant{}, control::shutdown{},
  };
  for (const auto& x : orders) {
    out.clear();
    say_as(a_tenant, "t", "command/1", x, 1);
    BOOST_TEST_CONTEXT(name_of(x)) {
      auto to_tenant = take<refusal>(out, "t");
      BOOST_REQUIRE(to_tenant);
      BOOST_TEST(to_tenant->first.reason.find("does not allow") !=
                 std::string::npos);
    }
  }
  BOOST_TEST(!dead(chief));
  say_as(an_admin, "r", "client/1", control::shutdown{}, 1);
  BOOST_TEST(take<refusal>(out, "r").has_value());
  greet_as(an_admin, "c", "command/1", role::command);
  say_as(an_admin, "c", "command/1", control::shutdown{}, 1);
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(a_worker_and_its_client_learn_each_others_keys) {
  greet_as(a_node, "n-a", "node/a", role::node);
  say_as(a_node, "n-a", "node/a", inventory("a"), 1);
  greet_as(a_tenant, "t", "client/1", role::client);
  acquire asks{{}, {"prog", 9, "h", "me"}};
  say_as(a_tenant, "t", "client/1", asks, 5);
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->client_key == client_key);
  auto where = endpoints("a");
  where.key = std::string(40, 'w');
  say_as(a_node, "n-a", "node/a",
         worker_started{order->session, order->epoch, where, 77, {}});
  auto got = leased("t", 5);
  BOOST_REQUIRE(got);
  BOOST_TEST(got->worker.key == where.key);
  // Its next client has logged in anew.
  tell(chief, std::make_shared<const link_event>(
                  link_event{link_event::kind::down, "t"}));
  auto later = a_tenant;
  later.name = "u";
  later.key = std::string(40, 'd');
  greet_as(later, "u", "client/2", role::client);
  say_as(later, "u", "client/2", adoption(*got), 6);
  auto told = take<resize_session>(out, "n-a");
  BOOST_REQUIRE(told);
  BOOST_TEST(told->first.client_key == later.key);
  BOOST_TEST(told->first.share == 0);
  got = leased("u", 6);
  BOOST_REQUIRE(got);
  BOOST_TEST(got->worker.key == where.key);
  // Its next epoch is of another worker, with another key.
  say_as(a_node, "n-a", "node/a",
         worker_exited{got->session, got->epoch, "signal 9", false});
  advance(std::chrono::seconds{1});
  order = ordered("a");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->client_key == later.key);
}

/// Starts a manager that knows who may connect.
struct revoking_cluster : keyed_cluster {
  std::shared_ptr<permitted_keys> permitted =
      std::make_shared<permitted_keys>(permitted_keys::table{
          {of_physics.key, of_physics}, {of_biology.key, of_biology}});

  revoking_cluster() : keyed_cluster(false) { begin(); }

  void begin() {
    auto with_keys = options();
    with_keys.permitted = permitted;
    chief = spawn(manager, with_keys, open_store(true),
                  spawn(test::fake_link, &out));
    run();
    join("a");
  }

  lease open_as(const principal& who, const std::string& peer) {
    greet_as(who, peer, "client/" + peer, role::client);
    say_as(who, peer, "client/" + peer,
           acquire{small(), {"prog", 9, "h", "me"}}, 5);
    auto order = ordered("a");
    BOOST_REQUIRE(order);
    started("a", *order);
    auto got = leased(peer, 5);
    BOOST_REQUIRE(got);
    return *got;
  }

  static specification small() {
    specification out;
    out.memory = test::gib;
    out.share = 0.25;
    return out;
  }

  void permit(permitted_keys::table all) {
    permitted->replace(std::move(all));
    tell(chief, std::make_shared<const link_event>(
                    link_event{link_event::kind::revoked, {}}));
  }
};

BOOST_FIXTURE_TEST_CASE(a_revoked_key_leaves_its_workers_no_time,
                        revoking_cluster) {
  auto gone = open_as(of_physics, "p");
  auto stays = open_as(of_biology, "b");
  open("a", small()); // without a key
  out.clear();
  // Also where the client is not connected.
  tell(chief, test::gone("p"));
  permit({{of_biology.key, of_biology}});
  // No time has passed.
  auto stopped = take<stop_worker>(out, "n-a");
  BOOST_REQUIRE(stopped);
  BOOST_TEST(stopped->first.session.value == gone.session.value);
  BOOST_TEST(!take<stop_worker>(out, "n-a"));
  BOOST_TEST(events().back().text == "the key of its client was revoked");
  BOOST_TEST(status()["vgpus"].size() == 2u);
  advance(std::chrono::seconds{1});
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["id"] == stays.session.value);
}

BOOST_FIXTURE_TEST_CASE(a_key_that_was_replaced_before_takes_nothing_along,
                        revoking_cluster) {
  auto got = open_as(of_physics, "p");
  auto later = of_physics;
  later.key = std::string(40, 'q');
  permit({{of_physics.key, of_physics}, {later.key, later}});
  greet_as(later, "q", "client/q", role::client);
  say_as(later, "q", "client/q", adoption(got), 6);
  BOOST_REQUIRE(leased("q", 6));
  out.clear();
  permit({{later.key, later}});
  BOOST_TEST(!take<stop_worker>(out, "n-a"));
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["epoch"] == 1);
}

BOOST_FIXTURE_TEST_CASE(a_key_that_was_revoked_without_a_manager_is_out,
                        revoking_cluster) {
  open_as(of_physics, "p");
  auto stays = open_as(of_biology, "b");
  kill(chief);
  permitted->replace({{of_biology.key, of_biology}});
  begin();
  auto left = status()["vgpus"];
  BOOST_REQUIRE(left.size() == 1u);
  BOOST_TEST(left[0]["sessions"][0]["id"] == stays.session.value);
}

BOOST_AUTO_TEST_CASE(a_session_without_a_key_is_as_before) {
  join("a");
  auto got = open("a");
  BOOST_TEST(got.worker.key.empty());
  claim(got);
  BOOST_TEST(!take<resize_session>(out, "n-a"));
}

BOOST_AUTO_TEST_CASE(a_newcomer_only_enrolls) {
  say_as(a_newcomer, "x", "node/a", status_request{}, 1);
  BOOST_TEST(take<refusal>(out, "x").has_value());
  // This manager gives no keys.
  say_as(a_newcomer, "x", "node/a", enroll{std::string(40, 'k'), "a"}, 2);
  auto got = take<refusal>(out, "x");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->second == 2u);
}

BOOST_AUTO_TEST_CASE(the_key_of_a_newcomer_is_permitted) {
  kill(chief);
  out.clear();
  std::vector<std::string> asked;
  auto with_keys = options();
  with_keys.enroll = [&](const principal& who,
                         const enroll& x) -> vgpu::status {
    asked.push_back(who.name + " " + x.name);
    if (x.name == "bad")
      return fault{fault_kind::refused, "no"};
    return {};
  };
  chief = spawn(manager, with_keys, open_store(false),
                spawn(test::fake_link, &out));
  run();
  say_as(a_newcomer, "x", "node/a", enroll{std::string(40, 'k'), "a"}, 1);
  BOOST_TEST(take<done>(out, "x").has_value());
  say_as(a_newcomer, "x", "node/a", enroll{std::string(40, 'k'), "bad"}, 2);
  BOOST_TEST(take<refusal>(out, "x").has_value());
  // Others do not enroll.
  say_as(a_tenant, "t", "client/1", enroll{std::string(40, 'k'), "a"}, 3);
  BOOST_TEST(take<refusal>(out, "t").has_value());
  say("p", "client/1", enroll{std::string(40, 'k'), "a"}, 4);
  BOOST_TEST(take<refusal>(out, "p").has_value());
  BOOST_TEST(asked == (std::vector<std::string>{"token-1 a", "token-1 bad"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
