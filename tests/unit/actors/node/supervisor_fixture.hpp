// A node's supervisor without processes, in virtual time.
#pragma once

#include "actors/node/supervisor.hpp"

#include "tests/unit/actors/deterministic.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vgpu::test::supervised {

using namespace vgpu::control;
using namespace std::chrono_literals;

/// Records what it is asked to do, and starts no process.
struct fake_spawner final : spawner {
  struct started {
    std::uint64_t tag;
    child_spec what;
  };
  std::vector<started> starts;
  std::vector<std::pair<std::uint64_t, int>> signals;

  void start(std::uint64_t tag, child_spec what, child_listener) override {
    starts.push_back({tag, std::move(what)});
  }
  std::map<std::uint64_t, std::string> inputs;
  std::map<std::uint64_t, std::uint64_t> quotas; // that were changed

  void resize(std::uint64_t tag, std::uint64_t quota) override {
    quotas[tag] = quota;
  }
  void feed(std::uint64_t tag, std::string input) override {
    inputs[tag] += input;
  }
  void signal(std::uint64_t tag, int number) override {
    signals.emplace_back(tag, number);
  }
};

/// A node with two pGPUs of 4 GiB, its manager and its workers.
struct a_node : test::deterministic {
  static constexpr auto gib = std::uint64_t{1} << 30;

  test::outbox to_manager;
  test::outbox to_workers;
  std::shared_ptr<fake_spawner> children = std::make_shared<fake_spawner>();
  std::string ready;
  supervisor_actor chief;

  explicit a_node(std::size_t most_workers = 8,
                  std::uint64_t standby_memory = 0) {
    supervisor_options x;
    x.standby_memory = standby_memory;
    x.most_workers = most_workers;
    x.name = "a";
    x.host = "h";
    x.manager_peer = "ipc://manager";
    x.worker_program = "/bin/worker";
    x.worker_endpoint = "ipc://node";
    x.worker_bind = "ipc://worker-%s";
    x.sandbox = "seccomp";
    for (auto i = 0u; i < 2; ++i) {
      x.pgpus.push_back({i, "cpu", {}});
      x.pgpus.back().facts.total_memory = 4 * gib;
    }
    auto watcher = spawn([this]() -> supervisor_watcher::behavior_type {
      return {[this](const supervisor_ready&) { ready += "ready"; },
              [this](const supervisor_failed& y) { ready += y.why; }};
    });
    chief = spawn(supervisor, x, spawn(test::fake_link, &to_manager),
                  spawn(test::fake_link, &to_workers),
                  std::shared_ptr<spawner>{children}, watcher);
    run();
  }

  /// Reports that the link to the manager is up.
  void connect() {
    tell(chief, std::make_shared<const link_event>(
                    link_event{link_event::kind::up, "ipc://manager"}));
  }

  void manager_says(body what, std::uint64_t request = 0) {
    tell(chief,
         test::letter("ipc://manager", "manager", std::move(what), request));
  }

  void worker_says(body what, const std::string& peer = "w") {
    tell(chief, test::letter(peer, "worker/1", std::move(what), 4));
  }

  /// Registers the node, and clears what it sent.
  void join(std::uint64_t incarnation = 77) {
    connect();
    welcome x;
    x.incarnation = incarnation;
    manager_says(x);
    manager_says(done{}, 1);
    to_manager.clear();
  }

  template <class T>
  std::optional<T> heard() {
    auto got = take<T>(to_manager, "");
    return got ? std::optional{got->first} : std::nullopt;
  }

  static start_worker order(std::uint64_t epoch_number = 1,
                            std::vector<std::uint32_t> pgpus = {0}) {
    return {{1},
            {2},
            {epoch_number},
            4711,
            pgpus,
            gib,
            control::protection::journal,
            "prog",
            1.0};
  }

  /// Starts a worker of this epoch, and returns the tag of its process.
  std::uint64_t start(std::uint64_t epoch_number = 1) {
    manager_says(order(epoch_number));
    BOOST_REQUIRE(!children->starts.empty());
    auto tag = children->starts.back().tag;
    tell(chief, child_started{tag, 1234, {}});
    worker_says(worker_hello{{1}, {epoch_number}, where(), {}});
    auto told = heard<worker_started>();
    BOOST_REQUIRE(told);
    BOOST_TEST(told->failure == "");
    BOOST_TEST(told->pid == 1234u);
    return tag;
  }

  /// Migrates a session to the node's other pGPU, and orders it back before its
  /// first process has ended. Returns the tags of both processes.
  std::pair<std::uint64_t, std::uint64_t> there_and_back() {
    auto first = start(1);
    auto there = order(2, {1}), back = order(3, {0});
    there.former_released = back.former_released = true;
    manager_says(there);
    auto second = children->starts.at(1).tag;
    tell(chief, child_started{second, 1235, {}});
    worker_says(worker_hello{{1}, {2}, where(), {}});
    manager_says(back);
    return {first, second};
  }

  static worker_endpoints where() { return {"ipc://w", "@w", "h"}; }

  void ends(std::uint64_t tag, const std::string& how, bool clean = false) {
    tell(chief, child_exited{tag, how, clean});
  }
};

} // namespace vgpu::test::supervised
