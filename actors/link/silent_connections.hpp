// How many connections may exist that have said nothing, and for how long.
#pragma once

#include "schema/log/session_area.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace vgpu {

/// Keeps the accepted connections of a socket that have not sent a message, and
/// ends those that stay silent, so that nobody takes all descriptors of a
/// process and keeps others out. Not thread-safe; the caller gives the time.
///
/// It has a descriptor of its own for each, because the owner of the other one
/// may close it at any time, and its number may then be another connection's.
class silent_connections {
public:
  using clock = std::chrono::steady_clock;

  /// Says after how long a silent connection ends. Those who have something to
  /// say begin with it.
  static constexpr std::chrono::seconds patience{5};
  /// Gives the number of silent connections beyond which the oldest ends of the
  /// peer that has most.
  static constexpr std::size_t most = 128;

  /// Adds a connection that was just accepted.
  void accepted(int fd, clock::time_point now);
  /// Forgets a connection that sent a message, or is gone.
  void forget(int fd) noexcept;
  /// Ends the connections that have been silent for too long.
  void end_overdue(clock::time_point now);
  /// Returns when the next one is due; unset: there is none.
  std::optional<clock::time_point> next_due() const;

  std::size_t size() const noexcept { return waiting_.size(); }

private:
  struct connection {
    unique_fd own;
    /// Is the user on this host, or the address elsewhere.
    std::string peer;
    clock::time_point since;
  };
  using connections = std::map<int, connection>;

  void end(connections::iterator which);
  void end_one_of_many();

  connections waiting_;
};

} // namespace vgpu
