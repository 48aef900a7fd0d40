// Moves vGPUs from pGPUs that have too much to do to others.
#pragma once

#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "policies/lifecycle/balance.hpp"

#include <optional>

namespace vgpu {

/// Samples how much sessions work, and orders one migration at a time. Of the
/// records it changes session_record::measured. One thread.
class balancer {
public:
  balancer(const manager_options& options, manager_clock& clock,
           cluster_state& state, const accounts& books, movement& moves);
  balancer(const balancer&) = delete;
  balancer& operator=(const balancer&) = delete;

  /// Takes a sample when one is due.
  void on_tick();
  /// When the next sample is due.
  std::optional<time_point> next_deadline() const noexcept { return next_; }

private:
  void measure(session_record& x);
  void measure_loads();
  policy::balance_view view() const;

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  const accounts& accounts_;
  movement& moves_;
  std::optional<time_point> next_;
  policy::hot_spot hot_;
};

} // namespace vgpu
