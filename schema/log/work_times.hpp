// When a worker executed a piece of a traced session's work.
#pragma once

#include <cstdint>
#include <type_traits>

namespace vgpu {

/// Holds the times of one call's work. They are nanoseconds since the epoch, by
/// the clock of the worker's host. Each is at least the one before it. A worker
/// that is lost may have told some of the times that its successor tells again.
struct work_times {
  /// Holds the call's number.
  std::uint64_t call = 0;
  /// Is when the worker received the call.
  std::uint64_t received = 0;
  /// Is when the session's turn came, and the device got the work.
  std::uint64_t submitted = 0;
  /// Is when all work before it in its stream was done.
  std::uint64_t reached = 0;
  /// Is when the device began the work. Between `reached` and this the work
  /// waits for the device's processors, and for the session's share of them.
  std::uint64_t began = 0;
  std::uint64_t ended = 0;
  /// Holds the index of the device in the session.
  std::uint32_t device = 0;
  std::uint32_t unused = 0;
  std::uint64_t unused_too = 0;
};
static_assert(sizeof(work_times) == 64 &&
              std::is_trivially_copyable_v<work_times>);

} // namespace vgpu
