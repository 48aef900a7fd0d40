// Turns with memory, where more of it is promised than there is.
#pragma once

#include "policies/simulator/admission_queue.hpp"
#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/scene.hpp"
#include "policies/simulator/swap_candidates.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::simulator {

/// Whose turn begins, who leaves for those who wait, and what all of that
/// takes. Does nothing where no more is promised than there is.
class simulated_swapping {
public:
  simulated_swapping(scene& all, const places& where, admission& queue,
                     swap_candidates& turns)
      : scene_(all), places_(where), queue_(queue), turns_(turns) {}

  /// It is asked for.
  void comes(std::uint32_t i);
  /// It has got a place, its memory or not.
  void has_place(std::uint32_t i);
  /// Its turn begins: it came,
  void begins(std::uint32_t i);
  /// its memory is back,
  void is_back(std::uint32_t i);
  /// or it was moved.
  void was_moved(std::uint32_t i);
  /// It has its memory, and may be made to leave;
  void may_leave(std::uint32_t i);
  /// now it may not, as its memory is copied.
  void stays(std::uint32_t i) { turns_.stays(i); }
  /// It leaves its place, for whatever reason.
  void leaves(std::uint32_t i);
  /// It has left for another, and waits as those do that come now.
  void made_room(std::uint32_t i);

  /// Who leaves now so that those who wait, in order, have room where turns are
  /// over.
  std::vector<std::uint32_t> make_room();
  /// Expects the end of the turn that make_room() found nobody for.
  void look_again();
  /// Whether that was of an earlier look.
  bool is_moot(std::uint32_t version) const { return version != version_; }

  /// Of the time for which vGPUs had memory, what coming and going took.
  double swapped_part() const {
    return had_memory_ > 0 ? swapping_ / had_memory_ : 0;
  }

private:
  scene& scene_;
  const places& places_;
  admission& queue_;
  swap_candidates& turns_;
  double soonest_ = never;    // that a turn ends which somebody waits for
  std::uint32_t version_ = 0; // of the last look for that
  double swapping_ = 0;       // seconds
  double had_memory_ = 0;
};

} // namespace vgpu::simulator
