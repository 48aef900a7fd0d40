// A manager and its clock. The test plays its peers.
#pragma once

#include "actors/manager/manager.hpp"

#include "tests/unit/actors/deterministic.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace vgpu::test {

using namespace vgpu::control;
using namespace std::chrono_literals;

inline constexpr auto gib = std::uint64_t{1} << 30;

struct cluster : deterministic {
  test::outbox out;
  std::string dir;
  std::uint64_t secret = 1000;
  std::optional<std::chrono::milliseconds> end_when_idle;
  std::optional<std::chrono::milliseconds> balance_every =
      manager_options{}.balance_every;
  std::shared_ptr<policy::placement_policy> own_placement;
  double overcommit = 1;
  double swapped_part = 0.1;
  manager_actor chief;

  explicit cluster(bool begin = true) {
    std::string path = std::filesystem::temp_directory_path() / "managerXXXXXX";
    dir = ::mkdtemp(path.data());
    if (begin)
      start();
  }
  ~cluster() { std::filesystem::remove_all(dir); }

  manager_options options() {
    manager_options x;
    x.random = [this] { return ++secret; };
    x.wall_time = [] { return 1.5; };
    x.restart.first_delay = 50ms;
    x.end_when_idle = end_when_idle;
    x.balance_every = balance_every;
    x.own_placement = own_placement;
    x.swapping.promised = overcommit;
    x.swapping.swapped_part = swapped_part;
    return x;
  }

  /// Opens the store that outlives a manager, or nothing if none is kept.
  std::shared_ptr<store> open_store(bool keep) {
    if (!keep)
      return nullptr;
    auto opened = store::open(dir + "/store");
    BOOST_REQUIRE(opened.ok());
    return std::move(*opened);
  }

  void start(bool keep = true) {
    auto link = spawn(test::fake_link, &out);
    chief = spawn(manager, options(), open_store(keep), link);
    run();
  }

  /// Kills the manager, and starts it again.
  void restart(bool keep = true) {
    kill(chief);
    out.clear();
    start(keep);
  }

  void say(const std::string& peer, const std::string& from, body what,
           std::uint64_t request = 0) {
    tell(chief, test::letter(peer, from, std::move(what), request));
    check_index();
  }

  /// Checks that the manager's index equals one made from its present state.
  void check_index() {
    auto* held = caf::actor_cast<caf::abstract_actor*>(chief);
    auto* it =
        dynamic_cast<manager_actor::stateful_pointer<manager_state>>(held);
    if (it != nullptr && !dead(chief) && it->state.core)
      BOOST_TEST(it->state.core->index_difference() == "");
  }

  // -- nodes ------------------------------------------------------------------

  register_node inventory(const std::string& name, std::uint32_t pgpus = 1,
                          const std::string& host = "h") {
    register_node x{name, host, 100, {}, {}};
    for (auto i = 0u; i < pgpus; ++i) {
      x.pgpus.push_back({i, "cpu", {}});
      x.pgpus.back().facts.total_memory = 4 * gib;
      x.pgpus.back().facts.name = "gpu";
      x.pgpus.back().facts.attributes = {
          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 6}};
    }
    return x;
  }

  void join(const register_node& x, const std::string& peer = "") {
    auto p = peer.empty() ? "n-" + x.name : peer;
    say(p, "node/" + x.name, hello{1, 1, "t", role::node});
    say(p, "node/" + x.name, x, 1);
  }

  void join(const std::string& name, std::uint32_t pgpus = 1,
            const std::string& host = "h") {
    join(inventory(name, pgpus, host));
  }

  /// Lets time pass while these nodes send heartbeats.
  void live(caf::timespan span, std::vector<std::string> nodes) {
    for (; span > caf::timespan{0}; span -= 50ms) {
      for (auto& x : nodes)
        say("n-" + x, "node/" + x, node_beat{x, 1, {}});
      advance(50ms);
      check_index();
    }
  }

  std::optional<start_worker> ordered(const std::string& node) {
    auto got = take<start_worker>(out, "n-" + node);
    return got ? std::optional{got->first} : std::nullopt;
  }

  /// Returns whether the node was ordered to prepare a worker, and reports the
  /// worker as prepared.
  bool prepares(const std::string& node, const std::string& failure = "") {
    while (auto got = take<prepare_worker>(out, "n-" + node)) {
      if (got->first.pgpus.empty())
        continue; // the worker is not needed
      say("n-" + node, "node/" + node,
          worker_prepared{got->first.session, failure});
      return true;
    }
    return false;
  }

  void started(const std::string& node, const start_worker& x,
               const std::string& failure = "") {
    say("n-" + node, "node/" + node,
        worker_started{x.session, x.epoch, endpoints(node), 77, failure});
  }

  static worker_endpoints endpoints(const std::string& node) {
    return {"tcp://" + node, "@" + node, "h"};
  }

  running_session running(const std::string& node, const start_worker& x) {
    return {x.session, x.epoch, x.vgpu, x.pgpus, endpoints(node), 77};
  }

  // -- clients ----------------------------------------------------------------

  void connect(const std::string& peer = "c") {
    say(peer, "client/" + peer, hello{1, 1, "t", role::client});
  }

  void ask(specification spec = {}, const std::string& peer = "c",
           std::uint64_t request = 5) {
    say(peer, "client/" + peer, acquire{spec, {"prog", 9, "h", "me"}}, request);
  }

  std::optional<lease> leased(const std::string& peer = "c",
                              std::uint64_t request = 0) {
    auto got = take<lease>(out, peer);
    if (!got)
      return std::nullopt;
    BOOST_TEST(got->second == request);
    return got->first;
  }

  /// Opens a session on `node`.
  lease open(const std::string& node, specification spec = {},
             const std::string& peer = "c") {
    connect(peer);
    ask(spec, peer);
    auto order = ordered(node);
    BOOST_REQUIRE(order);
    started(node, *order);
    auto got = leased(peer, 5);
    BOOST_REQUIRE(got);
    return *got;
  }

  /// Returns a client's claim of a lease that it already has.
  static adopt adoption(const lease& x) {
    return {x.session, x.vgpu, x.epoch, x.token, {}, {"prog", 9, "h", "me"},
            x.node};
  }

  void claim(const lease& x, const std::string& peer = "c",
             std::uint64_t request = 6) {
    say(peer, "client/" + peer, adoption(x), request);
  }

  std::string refused(const std::string& peer) {
    auto got = take<refusal>(out, peer);
    return got ? got->first.reason : "";
  }

  // -- what happened ----------------------------------------------------------

  std::vector<event> events() {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", events_request{}, 3);
    auto got = take<control::events>(out, "cmd");
    BOOST_REQUIRE(got);
    return got->first.list;
  }

  std::size_t count(const std::string& kind) {
    auto all = events();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(),
                      [&](const event& x) { return x.kind == kind; }));
  }

  nlohmann::json status() {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", status_request{}, 4);
    auto got = take<status_text>(out, "cmd");
    BOOST_REQUIRE(got);
    return nlohmann::json::parse(got->first.json);
  }
};

} // namespace vgpu::test
