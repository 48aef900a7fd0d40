// The manager's placement index, which changes with each event, equals one made
// from everything that the manager knows.
#include "tests/unit/actors/manager_fixture.hpp"

#include <map>
#include <random>

using namespace vgpu;
using namespace vgpu::test;

namespace {

/// Nodes and programs that join, fail, change and end at random. check_index()
/// runs after every message.
struct turmoil : cluster {
  std::mt19937 dice{11};
  std::map<std::string, std::uint32_t> nodes; // number of pGPUs
  std::map<session_id, start_worker> running;

  std::uint32_t roll(std::uint32_t sides) {
    return static_cast<std::uint32_t>(dice() % sides);
  }

  std::string any_node() {
    return std::next(nodes.begin(), roll(std::uint32_t(nodes.size())))->first;
  }

  /// Carries out the nodes' orders, or lets them fail.
  void obey() {
    for (auto more = true; more;) {
      more = false;
      for (const auto& [name, pgpus] : nodes)
        if (auto order = ordered(name)) {
          more = true;
          auto fails = roll(8) == 0;
          started(name, *order, fails ? "no luck" : "");
          running[order->session] = *order;
        }
    }
  }

  specification any_constraint() {
    specification x;
    x.share = 0.1 * (1 + roll(10));
    x.memory = roll(3) == 0 ? 0 : (1 + roll(40)) * (gib / 10);
    x.gpus = roll(6) == 0 ? 2 : 1;
    x.priority = static_cast<std::int32_t>(roll(3));
    x.group = roll(3) == 0 ? 1 + roll(3) : 0;
    x.wait_ms = roll(4) == 0 ? 200 : wait_for_ever;
    if (roll(8) == 0)
      x.node = any_node();
    return x;
  }

  void change_a_vgpu() {
    set_vgpu x;
    x.vgpu = {1 + roll(40)};
    x.share = 0.1 * (1 + roll(9));
    x.memory = (1 + roll(20)) * (gib / 10);
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", x, 9);
  }

  void end_one() {
    if (running.empty())
      return;
    auto i = std::next(running.begin(), roll(std::uint32_t(running.size())));
    say("c", "client/c", close_session{i->first, i->second.epoch, "done"});
    running.erase(i);
  }

  void break_a_node() {
    auto name = any_node();
    if (roll(2) == 0) {
      auto x = inventory(name, nodes[name]);
      x.pgpus[roll(nodes[name])].state = pgpu_health::lost;
      say("n-" + name, "node/" + name, x, 1);
    } else if (roll(2) == 0) {
      say("n-" + name, "node/" + name, control::shutdown{}, 2);
      join(name, nodes[name]);
    } else {
      tell(chief, std::make_shared<const link_event>(
                      link_event{link_event::kind::down, "n-" + name}));
      check_index();
      join(name, nodes[name]);
    }
  }

  void drain_or_not() {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", drain_node{any_node(), roll(3) != 0}, 9);
  }

  void step() {
    switch (roll(12)) {
    case 0:
      nodes["n" + std::to_string(roll(6))] = 3;
      for (const auto& [name, pgpus] : nodes)
        join(name, pgpus);
      break;
    case 1:
      break_a_node();
      break;
    case 2:
      drain_or_not();
      break;
    case 3:
    case 4:
      change_a_vgpu();
      break;
    case 5:
    case 6:
      end_one();
      break;
    case 7: {
      std::vector<std::string> all;
      for (const auto& [name, pgpus] : nodes)
        all.push_back(name);
      live(100ms, all);
      break;
    }
    default:
      ask(any_constraint());
    }
    obey();
    out.clear();
  }
};

/// A policy that always names the same place.
struct stubborn : policy::placement_policy {
  std::optional<policy::place> answer;
  std::optional<policy::place> choose(const policy::cluster_view&,
                                      const policy::demand&) override {
    return answer;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(manager_places)

BOOST_AUTO_TEST_CASE(a_custom_policy_decides_and_is_checked) {
  cluster c{false};
  auto own = std::make_shared<stubborn>();
  c.own_placement = own;
  c.start();
  c.join("a", 2);
  c.join("b", 2);
  own->answer = policy::place{"b", {1}};
  c.connect();
  c.ask();
  auto order = c.ordered("b");
  BOOST_REQUIRE(order);
  BOOST_TEST(order->pgpus == std::vector<std::uint32_t>{1});
  c.started("b", *order);
  BOOST_TEST(c.leased("c", 5)->node == "b");
  // An impossible place is not used, and the program gets the reason.
  own->answer = policy::place{"nowhere", {0}};
  c.ask({}, "c", 6);
  BOOST_TEST(!c.ordered("a"));
  BOOST_TEST(!c.ordered("b"));
  auto all = c.events();
  BOOST_TEST(all.back().kind == "session-waiting");
  BOOST_TEST(all.back().text.find("the placement policy named node 'nowhere': "
                                  "there is no such node") !=
             std::string::npos);
  own->answer = policy::place{"a", {0}};
  c.join("d");
  BOOST_TEST(c.ordered("a").has_value());
}

BOOST_FIXTURE_TEST_CASE(the_index_stays_equal_to_the_clusters_state, turmoil) {
  nodes = {{"n0", 3}, {"n1", 3}};
  for (const auto& [name, pgpus] : nodes)
    join(name, pgpus);
  connect();
  for (auto i = 0; i < 600; ++i)
    step();
  // The random steps placed sessions.
  BOOST_TEST(running.size() > 20u);
  BOOST_TEST(count("session-opened") > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
