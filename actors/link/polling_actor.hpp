// An actor with a thread of its own that sleeps on file descriptors and its
// mailbox together, and may look on for a moment before it does.
#pragma once

#include "actors/link/doorbell.hpp"
#include "schema/base/busy_poll.hpp"

#include <caf/all.hpp>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace vgpu {

/// Derive, and spawn detached. ring() may be called by any thread to end the
/// sleep; a message does it by itself.
class polling_actor : public caf::blocking_actor {
public:
  explicit polling_actor(caf::actor_config& cfg) : caf::blocking_actor(cfg) {}

  /// Called from the sender's thread.
  void enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* eu) override {
    caf::blocking_actor::enqueue(std::move(what), eu);
    ring();
  }

  /// Thread-safe. A system call only while the actor sleeps.
  void ring() noexcept {
    rung_.store(true);
    if (asleep_.exchange(false))
      bell_.ring();
  }

protected:
  /// Sleeps until something of `items` is ready, it was rung, or `patience`
  /// has passed (negative: for ever). The bell is added to `items` and taken
  /// off again.
  void sleep_on(std::vector<pollfd>& items,
                std::chrono::milliseconds patience) {
    items.push_back({bell_.fd(), POLLIN, 0});
    // Whoever rings after this line wakes us; whoever rang before it is seen.
    asleep_.store(true);
    auto ready = rung_.load() || !mailbox().empty();
    // Interrupted or not: whoever sleeps looks at everything afterwards.
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

  /// Looks, for as long as `rule` says, whether something of `items` is ready,
  /// it was rung, or `found` or `heard_of` says that there is something else:
  /// the one is asked often and should make no system call, the other makes one
  /// at most. Nobody rings meanwhile. True when there is something; `items`
  /// tell what they had when they were asked last, which is each eighth time.
  /// When there is not, it is time to sleep_on() them, and to tell `rule` how
  /// long the wait was in all.
  template <class Found, class Heard>
  bool look_on(std::vector<pollfd>& items, busy_poll& rule, const Found& found,
               const Heard& heard_of, busy_poll::clock::time_point began) {
    // These take about as long as one descriptor, which takes 0.3 us.
    constexpr auto looks_in_memory = 4;
    // Who always finds something still hears of the rest.
    constexpr auto unasked_at_most = 8U;
    auto any_ready = [&] {
      unasked_ = 0;
      return ::poll(items.data(), items.size(), 0) > 0;
    };
    auto seen = [&] {
      auto due = ++unasked_ >= unasked_at_most;
      for (int i = 0; i < looks_in_memory; ++i) {
        if (called() || found()) {
          if (due)
            (void)any_ready();
          return true;
        }
        __builtin_ia32_pause();
      }
      return due ? any_ready() : heard_of();
    };
    if (!rule.look(began, seen))
      return false;
    heard();
    return true;
  }

  /// Whether it was rung or got mail since it last slept, or heard() that.
  bool called() noexcept { return rung_.load(std::memory_order_acquire); }
  /// To be said before it looks at its mailbox and what else it is rung for.
  void heard() noexcept { rung_.store(false); }

private:
  doorbell bell_;
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> rung_ = false;
  unsigned unasked_ = 0; // rounds of looks since all items were asked
};

} // namespace vgpu
