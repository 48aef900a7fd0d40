// Who waits for a place, and when places are looked for.
#pragma once

#include "policies/simulator/placement_books.hpp"
#include "policies/simulator/promised_queue.hpp"
#include "policies/simulator/scene.hpp"
#include "policies/simulator/swap_candidates.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace vgpu::simulator {

/// The queue as the manager serves it: once around, in order, after something
/// was released; what those who find nothing will get soonest is kept for them.
class admission {
public:
  using rank = policy::queue_rank;
  using verdict = waiting_queue::verdict;
  /// Places a vGPU, if there is a place for it.
  using placer = std::function<bool(std::uint32_t)>;

  admission(scene& all, places& where, const swap_candidates& turns,
            placer try_place);

  /// It waits from now on. Where it is the last of the queue, for whom what is
  /// kept stays as it is, a place is looked for at once. Whether it found none,
  /// and has one kept: others may leave for its sake.
  bool finds_nothing(std::uint32_t i);
  /// It waits no more.
  void forget(std::uint32_t i);
  /// Once around.
  void serve();

  /// There is more to be had now, for whoever is the first.
  void release() noexcept { released_ = true; }
  /// Whether there is, since the queue was served.
  bool is_released() const noexcept { return released_; }
  /// So many bytes have been promised, or (less than 0) are needed no more.
  void promise(double bytes) { queue_.promise(bytes); }

  std::size_t size() const noexcept { return queue_.size(); }
  static std::uint32_t number_of(const rank& x) {
    return static_cast<std::uint32_t>(x.age);
  }
  waiting_queue::lane lane_of(std::uint32_t i) const;
  /// As promised_queue::serve_promised().
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
