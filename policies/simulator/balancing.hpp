// Which vGPU leaves a pGPU that has too much to do.
#pragma once

#include "policies/lifecycle/balance.hpp"
#include "policies/simulator/admission_queue.hpp"
#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/programs.hpp"
#include "policies/simulator/scene.hpp"

#include <cstdint>
#include <optional>

namespace vgpu::simulator {

/// Looks for hot pGPUs as the manager does, as long as any pGPU is overloaded,
/// and has one vGPU moved at a time.
class balancing {
public:
  balancing(scene& all, const places& where, const programs& what,
            const admission& queue);

  /// Somebody works: pGPUs may be overloaded now.
  void watch();
  /// None is any more: there will be no look.
  void stop() { looking_ = false; }
  /// Who moves now, and expects the next look.
  std::optional<std::uint32_t> look();
  /// It has been copied to there.
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
  bool all_have_memory_; // of those that will ever come
  bool looking_ = false;
  bool moving_ = false;
  policy::place target_; // of the move
  policy::hot_spot hot_;
};

} // namespace vgpu::simulator
