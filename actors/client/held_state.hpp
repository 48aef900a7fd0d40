// A state on its way from one worker to the next.
#pragma once

#include "schema/log/session_area.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vgpu {

/// A session's state that no worker has restored yet.
struct held_state {
  unique_fd file{};
  /// A parcel of the memory that the state lends to a worker of this host.
  unique_fd lent{};
  std::size_t lent_count = 0; // descriptors in `lent`
  /// A copy of `lent` for the worker that is about to attach.
  unique_fd offered{};
  std::uint64_t bytes = 0;    // of `file`
  std::uint64_t position = 0; // the next call, in bytes of the call log
  /// When the worker that the state describes stopped executing calls.
  std::chrono::steady_clock::time_point began{};
  /// It is a snapshot: calls were made after it, and they are replayed.
  bool snapshot = false;
  /// How many workers were given it to restore.
  unsigned tries = 0;
};

} // namespace vgpu
