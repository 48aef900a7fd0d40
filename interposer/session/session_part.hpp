// The part of the driver's state that belongs to session/.
#pragma once

#include "interposer/session/driver_log.hpp"
#include "interposer/session/hook.hpp"
#include "interposer/session/state_part.hpp"

namespace vgpu::interposer {

/// Owns the driver's log, which the program may read before cuInit, and
/// hooks that every folder above may run.
struct session_part : state_part<session_part> {
  driver_log log;

  /// Runs before the program waits for work, and before the worker learns that
  /// work which waited for the program may continue. Armed while pinned memory
  /// exists (memory/zero_copy.hpp), whose changes are then sent.
  hook before_wait;

  /// Runs when the program waits for a stream, an event or a context. Armed
  /// while a memory pool reserves more than its threshold (memory/pool.hpp),
  /// which such a wait releases.
  hook at_wait;

  /// Runs when the program knows that work is done, and before a host function.
  /// Armed while devices use copies of registered memory
  /// (memory/registered_memory.hpp), which are then read.
  hook after_wait;

  /// Runs before an object is freed that work may use. Armed while a launch
  /// with conditions is under way (graph/conditional_launch.hpp), which may yet
  /// append such work.
  hook before_release;
};

} // namespace vgpu::interposer
