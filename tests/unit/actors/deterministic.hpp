// Runs actors on the test's own thread, under a clock that only the test
// moves.
#pragma once

#include "actors/link/link.hpp"

#include "actors/link/log.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vgpu::test {

class deterministic {
public:
  deterministic()
      : system_(prepare(config_)),
        scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(
            system_.scheduler())),
        self(system_, true) {
    spdlog::set_level(spdlog::level::off);
    // A clock at its epoch makes "never seen" look recent.
    scheduler_.clock().current_time += std::chrono::hours{1};
  }

  /// An actor that rearms a timer would keep the coordinator's stop() busy for
  /// ever, so every actor is killed first.
  ~deterministic() {
    for (auto& x : spawned_)
      caf::anon_send_exit(x, caf::exit_reason::kill);
    spawned_.clear();
    run();
  }

  deterministic(const deterministic&) = delete;
  deterministic& operator=(const deterministic&) = delete;

  template <class F, class... Ts>
  auto spawn(F fun, Ts&&... xs) {
    auto out = system_.spawn(fun, std::forward<Ts>(xs)...);
    spawned_.push_back(caf::actor_cast<caf::strong_actor_ptr>(out));
    return out;
  }

  template <class Handle>
  void kill(const Handle& x) {
    caf::anon_send_exit(x, caf::exit_reason::kill);
    run();
  }

  /// Delivers messages until every mailbox is empty.
  void run() { scheduler_.run(); }

  /// Moves the clock in small steps, as real time would, so that timers that
  /// rearm themselves fire as often as they should.
  void advance(caf::timespan span,
               caf::timespan step = std::chrono::milliseconds{10}) {
    run();
    for (; span > caf::timespan{0}; span -= step) {
      scheduler_.advance_time(std::min(span, step));
      run();
    }
  }

  /// Lets time pass without handling messages, as for a frozen process. The
  /// mailboxes and the timers that are due come afterwards.
  void leap(caf::timespan span) { scheduler_.advance_time(span); }

  caf::actor_clock::time_point now() { return scheduler_.clock().now(); }

  template <class Handle, class... Ts>
  void tell(const Handle& who, Ts&&... xs) {
    caf::anon_send(who, std::forward<Ts>(xs)...);
    run();
  }

  template <class Handle>
  bool dead(const Handle& x) {
    return caf::actor_cast<caf::abstract_actor*>(x)->getf(
        caf::abstract_actor::is_terminated_flag);
  }

private:
  static caf::actor_system_config& prepare(caf::actor_system_config& config) {
    // With a string in place of the atom CAF 0.17 silently uses real threads.
    config.set("scheduler.policy", caf::atom("testing"));
    config.set("logger.verbosity", caf::atom("quiet"));
    return config;
  }

  caf::actor_system_config config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  std::vector<caf::strong_actor_ptr> spawned_;

public:
  caf::scoped_actor self;
};

/// What was sent through a fake link.
using outbox = std::deque<outgoing>;

/// Replaces a link, and keeps what is sent. The consumer has got all that
/// arrived.
inline link_actor::behavior_type fake_link(link_actor::pointer, outbox* box) {
  return {
      [](const control_consumer&) {},
      [box](const outgoing_ptr& out) { box->push_back(*out); },
      [](const link_look& x) {
        caf::anon_send(x.asks, std::make_shared<const link_event>(
                                   link_event{link_event::kind::looked, {}}));
      },
      [](const link_rekey&) {},
  };
}

/// Takes the first message of kind T for `peer` out of the box.
template <class T>
std::optional<std::pair<T, std::uint64_t>> take(outbox& box,
                                                const std::string& peer) {
  for (auto i = box.begin(); i != box.end(); ++i)
    if (i->peer == peer)
      if (auto* found = std::get_if<T>(&i->what.body)) {
        std::pair<T, std::uint64_t> out{*found, i->what.request};
        box.erase(i);
        return out;
      }
  return std::nullopt;
}

inline incoming_ptr letter(std::string peer, std::string from,
                           control::body what, std::uint64_t request = 0) {
  return std::make_shared<const incoming>(
      incoming{std::move(peer), {std::move(from), request, std::move(what)}});
}

inline link_event_ptr gone(std::string peer) {
  return std::make_shared<const link_event>(
      link_event{link_event::kind::down, std::move(peer)});
}

} // namespace vgpu::test
