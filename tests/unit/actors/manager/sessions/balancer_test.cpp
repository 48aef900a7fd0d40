// What the manager does about overloaded pGPUs, in virtual time.
#include "tests/unit/actors/manager_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

namespace {

/// Nodes that divide their pGPUs' time among programs, and a client that
/// follows its orders.
struct crowd : cluster {
  struct program {
    std::string node;
    std::uint32_t pgpu = 0;
    vgpu::epoch epoch;
    bool busy = true;
    std::uint64_t bytes = 1 << 20;
    std::uint64_t used_ns = 0; // of its present worker
  };
  std::map<session_id, program> programs;
  std::vector<std::string> nodes;
  std::set<session_id> stubborn;    // sessions that cannot be described
  std::set<std::string> broken;     // nodes that start no worker
  std::map<session_id, int> pauses; // requests to each session

  explicit crowd(bool begin = true) : cluster(begin) {}

  void node(const std::string& name, std::uint32_t pgpus = 1) {
    join(name, pgpus);
    nodes.push_back(name);
  }

  lease run_on(const std::string& name, specification spec = {}) {
    auto got = open(name, spec);
    programs[got.session] = {name, got.pgpus.at(0), got.epoch};
    return got;
  }

  std::size_t busy_at(const program& x) const {
    std::size_t sum = 0;
    for (const auto& [id, other] : programs)
      sum += other.busy && other.node == x.node && other.pgpu == x.pgpu;
    return sum;
  }

  void beat(const std::string& name, std::chrono::nanoseconds span) {
    node_beat told{name, 1, {}};
    for (auto& [id, x] : programs) {
      if (x.node != name)
        continue;
      if (x.busy)
        x.used_ns += static_cast<std::uint64_t>(span.count()) / busy_at(x);
      session_load load{id, x.epoch};
      load.memory_bytes = x.bytes;
      load.usage.device_ns = x.used_ns;
      told.sessions.push_back(load);
    }
    say("n-" + name, "node/" + name, told);
  }

  void obey() {
    for (const auto& name : nodes)
      while (prepares(name))
        ;
    while (auto order = take<pause_session>(out, "c")) {
      auto id = order->first.session;
      ++pauses[id];
      if (stubborn.contains(id)) {
        say("c", "client/c",
            paused{id, order->first.epoch, "it says no", 0, 0});
        continue;
      }
      programs[id].node.clear();
      say("c", "client/c", paused{id, order->first.epoch, "", 1 << 20, 2.5});
    }
    for (const auto& name : nodes)
      while (auto order = ordered(name))
        started(name, *order, broken.contains(name) ? "no memory" : "");
    while (auto got = leased("c")) {
      auto& x = programs[got->session];
      x.node = got->node;
      x.pgpu = got->pgpus.at(0);
      x.epoch = got->epoch;
      x.used_ns = 0;
      say("c", "client/c", restored{got->session, got->epoch, 1 << 20, 7.5});
    }
    // Ten minutes of them would take too much memory.
    std::erase_if(out, [](const auto& x) {
      return std::holds_alternative<beat_ack>(x.what.body);
    });
  }

  void pass(std::chrono::nanoseconds span) {
    constexpr std::chrono::nanoseconds step = 100ms;
    for (; span > 0ns; span -= step) {
      for (const auto& name : nodes)
        beat(name, step);
      advance(step, step);
      obey();
    }
  }

  /// Returns how many programs each node has.
  std::string spread() const {
    std::string all;
    for (const auto& name : nodes) {
      auto here =
          std::count_if(programs.begin(), programs.end(),
                        [&](const auto& x) { return x.second.node == name; });
      all += name + std::to_string(here);
    }
    return all;
  }

  void command(body what) {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", std::move(what), 7);
  }
};

struct crowd_left_alone : crowd {
  crowd_left_alone() : crowd(false) {
    balance_every.reset();
    start();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(hot_spots, crowd)

BOOST_AUTO_TEST_CASE(eight_on_one_node_even_out_and_then_stay) {
  node("a");
  for (auto i = 0; i < 8; ++i)
    run_on("a");
  node("b");
  pass(10s);
  BOOST_TEST(spread() == "a4b4");
  BOOST_TEST(count("session-balanced") == 4u);
  BOOST_TEST(count("move-failed") == 0u);
  auto last = events().back();
  BOOST_TEST(last.kind == "session-balanced");
  BOOST_TEST(last.text.find("its GPU had work for") != std::string::npos);
  pass(10min);
  BOOST_TEST(count("session-balanced") == 4u);
  BOOST_TEST(spread() == "a4b4");
  BOOST_TEST(status()["nodes"][1]["pgpus"][0]["load"].get<double>() > 3.9);
}

BOOST_AUTO_TEST_CASE(a_node_that_joins_gets_sessions) {
  node("a");
  node("b");
  for (auto i = 0; i < 3; ++i) {
    run_on("a");
    run_on("b");
  }
  pass(20s);
  BOOST_TEST(spread() == "a3b3");
  node("c");
  pass(10s);
  BOOST_TEST(spread() == "a2b2c2");
}

BOOST_AUTO_TEST_CASE(pgpus_of_one_node_even_out) {
  node("a", 2);
  specification there;
  there.pgpu = 0;
  run_on("a", there);
  run_on("a", there);
  pass(10s);
  BOOST_TEST(count("session-balanced") == 0u); // as they demand
  auto free = run_on("a");
  auto other = run_on("a");
  BOOST_TEST(programs[free.session].pgpu == 1u);
  BOOST_TEST(programs[other.session].pgpu == 1u);
  for (auto i = 0; i < 2; ++i) {
    auto& x = programs[std::next(programs.begin(), i)->first];
    x.busy = false;
  }
  pass(10s);
  BOOST_TEST(programs[free.session].pgpu + programs[other.session].pgpu == 1u);
  BOOST_TEST(count("session-balanced") == 1u);
}

BOOST_AUTO_TEST_CASE(no_session_is_migrated_while_none_waits) {
  node("a");
  for (auto i = 0; i < 8; ++i)
    programs[run_on("a").session].busy = i == 0;
  node("b");
  pass(1min);
  BOOST_TEST(spread() == "a8b0");
  BOOST_TEST(pauses.empty());
}

BOOST_AUTO_TEST_CASE(alternating_load_causes_no_migrations) {
  node("a");
  node("b");
  for (auto i = 0; i < 2; ++i) {
    run_on("a");
    run_on("b");
  }
  // The pGPUs are busy in turn, neither for three samples.
  for (auto i = 0; i < 60; ++i) {
    for (auto& [id, x] : programs)
      x.busy = (x.node == "a") == (i % 2 == 0);
    pass(2s);
  }
  BOOST_TEST(pauses.empty());
}

BOOST_AUTO_TEST_CASE(the_smallest_session_migrates_and_stays_for_a_while) {
  node("a");
  auto large = run_on("a");
  auto small = run_on("a");
  programs[large.session].bytes = gib;
  node("b");
  pass(10s);
  BOOST_TEST(programs[small.session].node == "b");
  // Its new pGPU becomes busy as well.
  specification there;
  there.node = "b";
  run_on("b", there);
  programs[large.session].busy = false;
  pass(1min);
  BOOST_TEST(spread() == "a1b2");
  pass(5min);
  BOOST_TEST(programs[small.session].node == "a");
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_migrate_is_asked_less_and_less) {
  node("a");
  auto x = run_on("a");
  auto y = run_on("a");
  programs[y.session].bytes = gib;
  stubborn = {x.session, y.session};
  node("b");
  pass(25s);
  BOOST_TEST(spread() == "a2b0");
  BOOST_TEST((pauses[x.session] == 1 && pauses[y.session] == 1));
  BOOST_TEST(count("move-failed") == 2u);
  auto told = events().back().text;
  BOOST_TEST(told.find("it says no (it was to go, as its GPU had work for") !=
             std::string::npos);
  pass(60s);
  BOOST_TEST((pauses[x.session] == 2 && pauses[y.session] == 2));
  stubborn.clear();
  pass(60s);
  BOOST_TEST(spread() == "a1b1");
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["state"] == "running");
}

BOOST_AUTO_TEST_CASE(a_session_returns_if_the_target_fails) {
  node("a");
  run_on("a");
  run_on("a");
  node("b");
  broken = {"b"};
  pass(20s);
  BOOST_TEST(spread() == "a2b0");
  BOOST_TEST(count("move-failed") == 2u); // one for each session
  broken.clear();
  pass(30s);
  BOOST_TEST(spread() == "a1b1");
}

BOOST_AUTO_TEST_CASE(constraints_between_vgpus_are_kept) {
  node("a");
  auto first = run_on("a");
  specification with;
  with.beside = first.vgpu;
  run_on("a", with);
  node("b");
  pass(20s);
  BOOST_TEST(spread() == "a2b0");
  specification far;
  far.apart = first.vgpu;
  auto single = run_on("b", far);
  programs[single.session].busy = false;
  run_on("a", [] {
    specification here;
    here.node = "a";
    return here;
  }());
  pass(20s);
  BOOST_TEST(spread() == "a3b1");
}

BOOST_AUTO_TEST_CASE(a_drained_node_is_emptied_once_there_is_room) {
  node("a");
  programs[run_on("a").session].busy = false;
  run_on("a");
  command(drain_node{"a", false});
  pass(5s);
  BOOST_TEST(spread() == "a2");
  node("b");
  pass(10s);
  BOOST_TEST(spread() == "a0b2");
  pass(1min);
  BOOST_TEST(spread() == "a0b2");
}

BOOST_AUTO_TEST_CASE(a_session_migrated_by_command_stays_there) {
  node("a");
  node("b");
  auto x = run_on("a");
  run_on("b");
  command(migrate_vgpu{x.vgpu, "b", -1});
  pass(1s);
  for (auto& [id, each] : programs)
    each.bytes = id == x.session ? 1 : gib;
  pass(20s);
  // The other session migrates, although it is larger.
  BOOST_TEST(programs[x.session].node == "b");
  BOOST_TEST(spread() == "a1b1");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(without_balance, crowd_left_alone)

BOOST_AUTO_TEST_CASE(without_balance_no_session_is_migrated) {
  node("a");
  for (auto i = 0; i < 4; ++i)
    run_on("a");
  node("b");
  pass(1min);
  BOOST_TEST(spread() == "a4b0");
}

BOOST_AUTO_TEST_SUITE_END()
