// Which vGPU leaves an overloaded pGPU.
#pragma once

#include "policies/lifecycle/balance.hpp"
#include "policies/simulator/admission_queue.hpp"
#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/programs.hpp"
#include "policies/simulator/scene.hpp"

#include <cstdint>
#include <optional>

namespace vgpu::simulator {

/// Samples the pGPUs as the manager does, as long as one is overloaded, and
/// migrates one vGPU at a time.
class balancing {
public:
  balancing(scene& all, const places& where, const programs& what,
            const admission& queue);

  /// Begins sampling, because a vGPU works and pGPUs may be overloaded.
  void watch();
  /// Ends sampling, because no pGPU is overloaded.
  void stop() { looking_ = false; }
  /// Takes a sample and schedules the next. Returns the vGPU to migrate now, if
  /// any.
  std::optional<std::uint32_t> look();
  /// Ends the copy of a migration. Returns the target.
  const policy::place& ends() {
    moving_ = false;
    return target_;
  }

private:
  bool may_be_hot() const;
  bool may_any_move() const;
  policy::balance_view view() const;

  scene& scene_;
  const places& places_;
  const programs& programs_;
  const admission& queue_;
  /// Tells whether every vGPU that will ever arrive gets its memory.
  bool all_have_memory_;
  bool looking_ = false;
  bool moving_ = false;
  /// Holds the target of the present migration.
  policy::place target_;
  policy::hot_spot hot_;
};

} // namespace vgpu::simulator
