// The vGPUs of a simulation.
#pragma once

#include "policies/placement/views.hpp"

#include <cstdint>

namespace vgpu::simulator {

enum class guest_stage : std::uint8_t {
  coming,
  waiting,
  placed,
  suspended, // idle; its place is others'
  gone
};

/// While its memory is copied, it does nothing.
enum class guest_copy : std::uint8_t {
  none,
  restore,
  suspend,
  preempt, // to make room for another
  migrate
};

struct guest {
  policy::place where;  // or was, last
  double left = 0;      // of its run time until the next idle phase, or its end
  double rate = 0;      // at which that goes by
  double since = 0;     // when `left` was right
  double asked_at = 0;  // for the place it waits for
  double waited = 0;    // in all
  double idle_from = 0; // while it is idle
  double moved_at = 0;
  std::uint32_t node = 0;
  std::uint32_t version = 0; // of what was expected of it
  std::uint32_t phase = 0;   // idle phases that are over
  guest_stage stage = guest_stage::coming;
  guest_copy copy = guest_copy::none;
  bool idle = false;
  bool had_place = false;
  bool was_moved = false;
};

} // namespace vgpu::simulator
