// An actor whose own thread sleeps on file descriptors and on its mailbox at
// once, and may busy-poll them before it sleeps.
#pragma once

#include "actors/link/doorbell.hpp"
#include "schema/base/busy_poll.hpp"

#include <caf/all.hpp>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace vgpu {

/// A polling_actor is a base for actors that are spawned detached. Any thread
/// may call ring() to end the sleep; a message to the actor also ends it.
class polling_actor : public caf::blocking_actor {
public:
  explicit polling_actor(caf::actor_config& cfg) : caf::blocking_actor(cfg) {}

  /// Runs on the sender's thread.
  void enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* eu) override {
    caf::blocking_actor::enqueue(std::move(what), eu);
    ring();
  }

  /// Ends the actor's sleep. It makes a system call only while the actor
  /// sleeps. Thread-safe.
  void ring() noexcept {
    rung_.store(true);
    if (asleep_.exchange(false))
      bell_.ring();
  }

protected:
  /// Sleeps until a descriptor of `items` is ready, somebody rings, or
  /// `patience` has passed (negative: without limit). It adds the bell to
  /// `items` and takes it off again.
  void sleep_on(std::vector<pollfd>& items,
                std::chrono::milliseconds patience) {
    items.push_back({bell_.fd(), POLLIN, 0});
    // A ring after this line wakes this thread. The check below sees a ring
    // before it.
    asleep_.store(true);
    auto ready = rung_.load() || !mailbox().empty();
    // After an interruption too, the caller examines all of its sources.
    if (::poll(items.data(), items.size(),
               ready ? 0 : static_cast<int>(patience.count())) < 0)
      for (auto& x : items)
        x.revents = 0;
    asleep_.store(false);
    if (items.back().revents != 0)
      bell_.silence();
    rung_.store(false);
    items.pop_back();
  }

  /// Busy-polls for as long as `rule` allows. Returns true when a descriptor of
  /// `items` is ready, somebody rang, or `found` or `heard_of` reports other
  /// work. `found` runs often and should make no system call; `heard_of` may
  /// make one. Rings cost no system call meanwhile. `items` hold the result of
  /// their last poll, which happens in every eighth round. After false, call
  /// sleep_on() and report the whole wait to `rule`.
  template <class Found, class Heard>
  bool busy_poll_on(std::vector<pollfd>& items, busy_poll& rule,
                    const Found& found, const Heard& heard_of,
                    busy_poll::clock::time_point began) {
    // So many memory checks take about as long as polling one descriptor.
    constexpr auto memory_checks = 4;
    // An actor that always finds work still polls its descriptors in every
    // eighth round.
    constexpr auto unasked_at_most = 8U;
    auto any_ready = [&] {
      unasked_ = 0;
      return ::poll(items.data(), items.size(), 0) > 0;
    };
    auto seen = [&] {
      auto due = ++unasked_ >= unasked_at_most;
      for (int i = 0; i < memory_checks; ++i) {
        if (called() || found()) {
          if (due)
            (void)any_ready();
          return true;
        }
        __builtin_ia32_pause();
      }
      return due ? any_ready() : heard_of();
    };
    if (!rule.wait_for(began, seen))
      return false;
    heard();
    return true;
  }

  /// Returns whether somebody rang or sent a message since the last sleep or
  /// heard().
  bool called() noexcept { return rung_.load(std::memory_order_acquire); }
  /// Clears called(). Call it before examining the mailbox and other sources.
  void heard() noexcept { rung_.store(false); }

private:
  doorbell bell_;
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> rung_ = false;
  /// Counts the rounds since all items were polled.
  unsigned unasked_ = 0;
};

} // namespace vgpu
