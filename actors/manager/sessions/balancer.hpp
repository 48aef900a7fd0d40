// Moves vGPUs from busy pGPUs to less busy ones.
#pragma once

#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "policies/lifecycle/balance.hpp"

#include <optional>

namespace vgpu {

/// Samples the sessions' loads, and orders one migration at a time. Of the
/// records it changes only session_record::measured. Not thread-safe.
class balancer {
public:
  balancer(const manager_options& options, manager_clock& clock,
           cluster_state& state, const accounts& books, movement& moves);
  balancer(const balancer&) = delete;
  balancer& operator=(const balancer&) = delete;

  /// Takes a sample when one is due.
  void on_tick();
  /// Returns when the next sample is due.
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
