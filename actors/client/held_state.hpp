// A state on its way from one worker to the next.
#pragma once

#include "schema/log/session_area.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vgpu {

/// Holds a session's state that no worker has restored yet.
struct held_state {
  unique_fd file{};
  /// Holds a parcel of the memory that the state lends to a worker of this
  /// host.
  unique_fd lent{};
  std::size_t lent_count = 0; // descriptors in `lent`
  /// Says that the former worker has handed the lent memory to the next one, so
  /// that no other one can restore the state.
  bool lent_directly = false;
  /// Holds a copy of `lent` for the worker that is about to attach.
  unique_fd offered{};
  std::uint64_t bytes = 0;    // of `file`
  std::uint64_t position = 0; // the next call, in bytes of the call log
  /// Says when the worker that wrote the state stopped executing calls.
  std::chrono::steady_clock::time_point began{};
  /// Tells that it is a snapshot, after which the journal is replayed.
  bool snapshot = false;
  /// Counts the workers that were to restore it.
  unsigned tries = 0;
  /// Count its bytes that came while the worker executed calls, and those that
  /// have travelled since.
  std::uint64_t came_ahead = 0;
  std::uint64_t travelled = 0;
};

} // namespace vgpu
