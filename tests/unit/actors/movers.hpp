// Sessions that are suspended and migrated, and the messages of their clients
// and nodes.
#pragma once

#include "tests/unit/actors/manager_fixture.hpp"

#include <optional>
#include <string>
#include <utility>

namespace vgpu::test {

using namespace control;

struct movers : cluster {
  void command(body what, std::uint64_t request) {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", std::move(what), request);
  }
  bool done(std::uint64_t request) {
    auto got = take<control::done>(out, "cmd");
    return got && got->second == request;
  }
  /// Opens a session on node a, and orders its migration to pGPU 1 of node b.
  lease leaving() {
    join("a");
    join("b", 2);
    auto x = open("a");
    command(migrate_vgpu{x.vgpu, "b", 1}, 7);
    return x;
  }

  /// Reports prepared workers where they were ordered. Returns the client's
  /// order to pause, if there is one.
  std::optional<pause_session> pausing() {
    for (auto* node : {"a", "b"})
      prepares(node);
    auto got = take<pause_session>(out, "c");
    return got ? std::optional{got->first} : std::nullopt;
  }
  void gave_state(const lease& x, bool process_checkpointed = false) {
    say("c", "client/c",
        paused{x.session, x.epoch, "", 1 << 20, 2.5, process_checkpointed});
  }
  void runs_again(const lease& x) {
    say("c", "client/c", restored{x.session, x.epoch, 1 << 20, 7.5});
  }
  std::string state() { return status()["vgpus"][0]["sessions"][0]["state"]; }
  std::string node() { return status()["vgpus"][0]["sessions"][0]["node"]; }

  /// Opens a session, and suspends it.
  lease suspend(bool hold, bool process_checkpointed = false,
                specification spec = {}) {
    join("a");
    auto x = open("a", std::move(spec));
    command(suspend_vgpu{x.vgpu, hold}, 7);
    auto order = pausing();
    BOOST_REQUIRE(order);
    BOOST_TEST((order->session == x.session && order->epoch == x.epoch));
    BOOST_TEST(!done(7));
    gave_state(x, process_checkpointed);
    BOOST_TEST(done(7));
    BOOST_TEST(state() == "suspended");
    return x;
  }
  /// Starts the worker that the node was ordered to start. Returns the client's
  /// new lease.
  lease comes_up(const std::string& where) {
    auto order = ordered(where);
    BOOST_REQUIRE(order);
    started(where, *order);
    auto got = leased("c");
    BOOST_REQUIRE(got);
    return *got;
  }
};

} // namespace vgpu::test
