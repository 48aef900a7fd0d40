// Memory swapping in a simulation.
#pragma once

#include "policies/simulator/admission_queue.hpp"
#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/scene.hpp"
#include "policies/simulator/swap_candidates.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::simulator {

/// Tracks turns with memory, chooses the vGPUs that are suspended for waiting
/// ones, and sums up the cost. It does nothing if no more memory is promised
/// than exists.
class simulated_swapping {
public:
  simulated_swapping(scene& all, const places& where, admission& queue,
                     swap_candidates& turns)
      : scene_(all), places_(where), queue_(queue), turns_(turns) {}

  /// Records that a vGPU is requested.
  void comes(std::uint32_t i);
  /// Records that it got a place, with or without its memory.
  void has_place(std::uint32_t i);
  /// Begins its turn, because it arrived.
  void begins(std::uint32_t i);
  /// Begins its turn, because its memory is restored.
  void is_back(std::uint32_t i);
  /// Begins its turn, because it was migrated.
  void was_moved(std::uint32_t i);
  /// Records that it has its memory and may be suspended.
  void may_leave(std::uint32_t i);
  /// Records that it may not be suspended, because its memory is being copied.
  void stays(std::uint32_t i) { turns_.stays(i); }
  /// Records that it leaves its place for any reason.
  void leaves(std::uint32_t i);
  /// Records that it was suspended for another vGPU and waits behind the
  /// present queue.
  void made_room(std::uint32_t i);

  /// Returns the vGPUs to suspend now, so that waiting ones, in order, get room
  /// where turns are over.
  std::vector<std::uint32_t> make_room();
  /// Schedules the end of a turn, if make_room() found no vGPU.
  void look_again();
  /// Returns whether an event belongs to an earlier schedule.
  bool is_moot(std::uint32_t version) const { return version != version_; }

  /// Returns the part of the time with memory that suspending and restoring
  /// took.
  double swapped_part() const {
    return had_memory_ > 0 ? swapping_ / had_memory_ : 0;
  }

private:
  scene& scene_;
  const places& places_;
  admission& queue_;
  swap_candidates& turns_;
  /// Is the earliest end of a turn for which a vGPU waits.
  double soonest_ = never;
  /// Is the version of the last schedule.
  std::uint32_t version_ = 0;
  /// Holds the seconds of suspending and restoring.
  double swapping_ = 0;
  double had_memory_ = 0;
};

} // namespace vgpu::simulator
