// The vGPUs of a simulation.
#pragma once

#include "policies/placement/views.hpp"

#include <cstdint>

namespace vgpu::simulator {

enum class guest_stage : std::uint8_t {
  coming,
  waiting,
  placed,
  suspended, // idle, and off its place
  gone
};

/// Names the copy of memory that is under way. A vGPU does nothing meanwhile.
enum class guest_copy : std::uint8_t {
  none,
  restore,
  suspend,
  preempt, // for another vGPU
  migrate
};

/// Describes a vGPU of a simulation. Times are in seconds.
struct guest {
  policy::place where;  // present or last
  double left = 0;      // run time until the next idle phase, or the end
  double rate = 0;      // the speed at which `left` shrinks
  double since = 0;     // when `left` was right
  double asked_at = 0;  // when it asked for the place it waits for
  double waited = 0;    // in all
  double idle_from = 0; // while it is idle
  double moved_at = 0;
  std::uint32_t node = 0;
  std::uint32_t version = 0; // of its expected events
  std::uint32_t phase = 0;   // the number of past idle phases
  guest_stage stage = guest_stage::coming;
  guest_copy copy = guest_copy::none;
  bool idle = false;
  bool had_place = false;
  bool was_moved = false;
};

} // namespace vgpu::simulator
