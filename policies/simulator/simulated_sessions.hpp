// The vGPUs of a simulation.
#pragma once

#include "policies/placement/views.hpp"

#include <cstdint>

namespace vgpu::simulator {

/// Names the stages of a vGPU.
enum class simulated_stage : std::uint8_t {
  coming,
  waiting,
  placed,
  /// The vGPU is idle and has no place.
  suspended,
  gone
};

/// Names the copy of memory that is under way. A vGPU does nothing meanwhile.
enum class simulated_copy : std::uint8_t {
  none,
  restore,
  suspend,
  /// The vGPU is suspended for another vGPU.
  preempt,
  migrate
};

/// Describes a vGPU of a simulation. Times are in seconds.
struct simulated_session {
  /// Holds the present place, or the last one.
  policy::place where;
  /// Is the run time that is left until the next idle phase, or until the end.
  double left = 0;
  /// Is the speed at which `left` shrinks.
  double rate = 0;
  /// Says at which time `left` was right.
  double since = 0;
  /// Says when the vGPU asked for the place that it waits for.
  double asked_at = 0;
  /// Is the whole waiting time so far.
  double waited = 0;
  /// Says when the present idle phase began.
  double idle_from = 0;
  double moved_at = 0;
  std::uint32_t node = 0;
  /// Is the version of its expected events; events of other versions are moot.
  std::uint32_t version = 0;
  /// Counts the past idle phases.
  std::uint32_t phase = 0;
  simulated_stage stage = simulated_stage::coming;
  simulated_copy copy = simulated_copy::none;
  bool idle = false;
  bool had_place = false;
  bool was_moved = false;
};

} // namespace vgpu::simulator
