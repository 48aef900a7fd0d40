// The queue of waiting vGPUs, and when it is served.
#pragma once

#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/promised_queue.hpp"
#include "policies/simulator/scene.hpp"
#include "policies/simulator/swap_candidates.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace vgpu::simulator {

/// Serves the queue as the manager does: a whole pass, in order, after
/// something was released. A vGPU without a place gets the earliest available
/// one kept for it.
class admission {
public:
  using rank = policy::queue_rank;
  using verdict = waiting_queue::verdict;
  /// Places a vGPU. Returns false if there is no place for it.
  using placer = std::function<bool(std::uint32_t)>;

  admission(scene& all, places& where, const swap_candidates& turns,
            placer try_place);

  /// Queues a vGPU. If it is the last of the queue, the kept places stay as
  /// they are, so it looks for a place at once. Returns whether it found none
  /// and has a place kept, for which others may leave.
  bool finds_nothing(std::uint32_t i);
  /// Removes a vGPU from the queue.
  void forget(std::uint32_t i);
  /// Makes one pass over the queue.
  void serve();

  /// Records that something was released for the first in the queue.
  void release() noexcept { released_ = true; }
  /// Returns whether something was released since the queue was served.
  bool is_released() const noexcept { return released_; }
  /// Counts so many bytes as promised, or (if negative) as not needed any more.
  void promise(double bytes) { queue_.promise(bytes); }

  std::size_t size() const noexcept { return queue_.size(); }
  static std::uint32_t number_of(const rank& x) {
    return static_cast<std::uint32_t>(x.age);
  }
  /// Returns the lane of a vGPU in the queue.
  waiting_queue::lane lane_of(std::uint32_t i) const;
  /// Does what promised_queue::serve_promised() does.
  template <class F>
  void serve_promised(F f) {
    queue_.serve_promised(f);
  }

private:
  rank rank_of(std::uint32_t i) const;

  scene& scene_;
  places& places_;
  const swap_candidates& turns_;
  placer try_place_;
  promised_queue queue_;
  bool released_ = false;
};

} // namespace vgpu::simulator
