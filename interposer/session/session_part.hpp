// What session/ has of the driver's state.
#pragma once

#include "interposer/session/driver_log.hpp"
#include "interposer/session/hook.hpp"
#include "interposer/session/state_part.hpp"

namespace vgpu::interposer {

/// session/ owns the driver's log, which the program may read before cuInit,
/// and two hooks that every folder above may run.
struct session_part : state_part<session_part> {
  driver_log log;

  /// Runs before the program waits for work, and before the worker learns that
  /// what waited for the program may go on. Armed while there is pinned memory
  /// (memory/zero_copy.hpp): what the program wrote there is sent then.
  hook before_wait;

  /// Runs before something is freed that work may use. Armed while a graph with
  /// conditions is under way (graph/conditional_launch.hpp), which may have
  /// such work yet to append.
  hook before_release;
};

} // namespace vgpu::interposer
