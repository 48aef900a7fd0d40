#pragma once

#include "actors/link/protocol.hpp"
#include "policies/placement/views.hpp"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Holds the cluster's last events, numbered, and the requests that wait for
/// the next ones. Not thread-safe: it is a value of the manager's state.
class event_log {
public:
  /// Limits the events that are kept.
  static constexpr std::size_t capacity = 10'000;
  /// Limits the events in one answer.
  static constexpr std::size_t most_at_once = 1'000;
  /// Limits the requests that wait. A further one gets an empty answer at once.
  static constexpr std::size_t most_waiting = 1'024;

  struct waiter {
    std::string peer;
    std::uint64_t request = 0;
    std::uint64_t after = 0;
    policy::time_point until;
    /// Names the tenant whose events it waits for; unset: for all.
    std::optional<std::string> only{};
  };

  /// Gives `what` the next number and keeps it.
  const control::event& add(control::event what);
  /// Restores what the store kept, oldest first.
  void restore(std::deque<control::event> kept);

  /// Returns the oldest events with a number above `after`, at most
  /// most_at_once. With `only`, those of this tenant alone.
  std::vector<control::event>
  after(std::uint64_t after, const std::optional<std::string>& only) const;
  std::uint64_t last() const noexcept { return last_; }

  /// Waits for an event that is added from now on. Returns false when too many
  /// requests wait already.
  bool wait(waiter who);
  /// Removes and returns the requests of which an event has come, or whose time
  /// is over.
  std::vector<waiter> take_served(policy::time_point now);
  void drop(const std::string& peer);
  std::optional<policy::time_point> next_deadline() const;

private:
  std::deque<control::event> kept_;
  std::uint64_t last_ = 0;
  /// Holds the number of the last event for which waiters were looked for.
  std::uint64_t served_ = 0;
  std::vector<waiter> waiting_;
};

} // namespace vgpu
