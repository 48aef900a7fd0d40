// Holds whole conversations with a node's supervisor, in virtual time: a
// manager and workers, some of whose messages are honest, and others that say
// anything. It checks that the supervisor lives, and that it speaks only of
// sessions and epochs that the manager ordered.
#include "actors/link/codec.hpp"
#include "actors/node/supervisor.hpp"
#include "fuzz_target.hpp"
#include "made_messages.hpp"
#include "tests/unit/actors/deterministic.hpp"

#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <utility>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_steps = 120;
constexpr auto manager_name = "ipc://manager";

/// Starts no process, and remembers the tags of those to start.
struct no_processes final : spawner {
  std::deque<std::uint64_t> tags;
  void start(std::uint64_t tag, child_spec, child_listener) override {
    tags.push_back(tag);
  }
  void feed(std::uint64_t, std::string) override {}
  void signal(std::uint64_t, int) override {}
};

class node_conversation : test::deterministic {
public:
  explicit node_conversation(test::choices& in) : in_(in) {
    supervisor_options x;
    x.name = "a";
    x.host = "h";
    x.manager_peer = manager_name;
    x.worker_program = "/bin/worker";
    x.worker_endpoint = "ipc://node";
    x.worker_bind = "ipc://worker-%s";
    for (auto i = 0u; i < 2; ++i) {
      x.pgpus.push_back({i, "cpu", {}});
      x.pgpus.back().facts.total_memory = std::uint64_t{4} << 30;
    }
    auto watcher = spawn([this]() -> supervisor_watcher::behavior_type {
      return {[](const supervisor_ready&) {},
              [this](const supervisor_failed&) { may_end_ = true; }};
    });
    chief_ = spawn(supervisor, x, spawn(test::fake_link, &to_manager_),
                   spawn(test::fake_link, &to_workers_),
                   std::shared_ptr<spawner>{children_}, watcher);
    vgpu::test::deterministic::run();
    tell(chief_, std::make_shared<const link_event>(
                     link_event{link_event::kind::up, manager_name}));
    say(manager_name, welcome{1, "t", 77, 100, 500, 0});
    say(manager_name, done{}, 1);
  }

  void go_on() {
    for (std::size_t i = 0; i < most_steps && !in_.over() && !may_end_; ++i) {
      step();
      if (dead(chief_) && !may_end_)
        std::abort();
      hear_all();
    }
  }

private:
  void step() {
    const std::string workers[] = {"w1", "w2"};
    const auto& worker = in_.one_of(workers);
    switch (in_.below(10)) {
    case 0: {
      constexpr std::chrono::milliseconds spans[] = {1ms, 100ms, 600ms, 3'000ms,
                                                     12'000ms};
      return advance(in_.one_of(spans), 100ms);
    }
    case 1: {
      const std::string peers[] = {manager_name, "w1", "w2"};
      return tell(chief_, test::gone(in_.one_of(peers)));
    }
    case 2:
      return tell(chief_, std::make_shared<const link_event>(
                              link_event{link_event::kind::up, manager_name}));
    case 3:
    case 4:
      return order();
    case 5:
      if (!children_->tags.empty())
        tell(chief_, child_started{in_.one_of(children_->tags), 1234,
                                   in_.below(8) == 0 ? "no memory" : ""});
      return;
    case 6:
      if (!children_->tags.empty())
        tell(chief_, child_exited{in_.one_of(children_->tags), "exit 0",
                                  in_.below(2) == 0});
      return;
    case 7:
      return say(worker, worker_hello{session(),
                                      {1 + in_.below(4)},
                                      {"tcp://w", "@w", "h"},
                                      {}});
    case 8:
      return say(worker, test::make_body(in_, heard_));
    default:
      return say(manager_name, test::make_body(in_, heard_));
    }
  }

  session_id session() { return {1 + in_.below(2)}; }

  void order() {
    start_worker x;
    x.session = session();
    x.vgpu = {2};
    x.epoch = {1 + in_.below(4)};
    x.token = 4711;
    x.pgpus = {static_cast<std::uint32_t>(in_.below(2))};
    x.quota = std::uint64_t{1} << 30;
    x.program = "prog";
    x.former_released = in_.below(2) != 0;
    say(manager_name, x);
  }

  /// Delivers a message as it comes out of the wire, now and then damaged.
  void say(const std::string& peer, control::body what,
           std::uint64_t request = 0) {
    auto frame = control::encode({"worker/1", request, std::move(what)});
    if (in_.below(16) == 0) {
      auto* bytes = static_cast<std::uint8_t*>(frame.data());
      bytes[(in_.byte() * 256u + in_.byte()) % frame.size()] = in_.byte();
    }
    auto got = control::decode({peer, std::move(frame), {}});
    auto* x = std::get_if<control::envelope>(&got);
    if (x == nullptr)
      return;
    if (peer == manager_name)
      note_orders(x->body);
    tell(chief_, std::make_shared<const incoming>(incoming{peer, *x}));
  }

  void note_orders(const control::body& what) {
    if (auto* x = std::get_if<start_worker>(&what))
      ordered_.emplace(x->session, x->epoch);
    if (auto* x = std::get_if<stop_worker>(&what))
      ordered_.emplace(x->session, x->epoch);
    may_end_ = may_end_ || std::holds_alternative<shutdown>(what) ||
               std::holds_alternative<refusal>(what);
  }

  void check(session_id session, vgpu::epoch era) {
    if (!ordered_.contains({session, era}))
      std::abort();
  }

  void hear_all() {
    for (auto* box : {&to_manager_, &to_workers_})
      for (auto& x : std::exchange(*box, {})) {
        std::visit([&](const auto& y) { test::hear(heard_, y); }, x.what.body);
        check(x.what.body);
      }
  }

  void check(const control::body& what) {
    if (auto* x = std::get_if<worker_started>(&what))
      check(x->session, x->epoch);
    if (auto* x = std::get_if<worker_exited>(&what))
      check(x->session, x->epoch);
    if (auto* x = std::get_if<register_node>(&what))
      for (auto& each : x->sessions)
        check(each.session, each.epoch);
    if (auto* x = std::get_if<node_beat>(&what))
      for (auto& each : x->sessions)
        check(each.session, each.epoch);
  }

  test::choices& in_;
  test::outbox to_manager_, to_workers_;
  std::shared_ptr<no_processes> children_ = std::make_shared<no_processes>();
  supervisor_actor chief_;
  bool may_end_ = false;
  test::heard_values heard_;
  std::set<std::pair<session_id, vgpu::epoch>> ordered_;
};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  test::choices in{{data, size}};
  node_conversation{in}.go_on();
  return 0;
}
