// How often a process logs what its peers do wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace vgpu {

/// Bounds the lines of log that peers cause, for each peer and for all of them,
/// so that no peer fills a disk with noise. Not thread-safe; the caller gives
/// the time.
class log_limit {
public:
  using clock = std::chrono::steady_clock;

  /// Gives the lines in a span of time, for one peer and for all.
  static constexpr std::uint64_t most_of_one = 5;
  static constexpr std::uint64_t most_of_all = 100;
  static constexpr std::chrono::seconds span{10};

  /// Returns whether a line about this peer may be logged now. If so, the
  /// number says how many lines about any peer were suppressed since the last
  /// one that was logged.
  std::optional<std::uint64_t> admits(const std::string& peer,
                                      clock::time_point now);

private:
  clock::time_point began_{};
  std::uint64_t logged_ = 0;
  std::uint64_t suppressed_ = 0;
  /// Counts the lines by peer, of at most most_of_all peers.
  std::map<std::string, std::uint64_t> by_peer_;
};

/// Returns what a line says of the suppressed ones before it; empty: none were.
std::string note_suppressed(std::uint64_t lines);

} // namespace vgpu
