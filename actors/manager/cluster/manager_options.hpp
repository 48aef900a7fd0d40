// What a manager is configured with.
#pragma once

#include "actors/manager/election/election.hpp"
#include "policies/lifecycle/balance.hpp"
#include "policies/lifecycle/liveness.hpp"
#include "policies/lifecycle/memory_swapping.hpp"
#include "policies/lifecycle/reclaim.hpp"
#include "policies/lifecycle/restart.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/placement_plugin.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

struct manager_options {
  /// Where the manager listens, for the status.
  std::string endpoint;
  std::chrono::milliseconds beat_every{100};
  policy::liveness_options liveness;
  policy::restart_options restart;
  policy::reclaim_options reclaim;
  policy::swapping_options swapping;
  /// How often the balancer samples the pGPUs' loads; unset: never.
  std::optional<std::chrono::milliseconds> balance_every{1'000};
  /// In how many samples in a row a pGPU must be too hot before a vGPU moves.
  unsigned balance_samples = 3;
  policy::balance_options balance;
  /// How a place is chosen for a vGPU that has none. Moves by command or by the
  /// balancer follow rules of their own.
  policy::placement_strategy placement =
      policy::placement_strategy::least_loaded;
  /// The user's own policy, which decides in place of `placement`; null: there
  /// is none.
  std::shared_ptr<policy::placement_policy> own_placement;
  /// The policy's name, for the status.
  std::string placement_name = "least-loaded";
  /// How long a client may be without a connection before its sessions close.
  std::chrono::milliseconds client_grace{5'000};
  /// How long sessions wait for their clients after a restart.
  std::chrono::milliseconds restart_grace{10'000};
  /// How long nodes may take to come back after a restart.
  std::chrono::milliseconds node_grace{2'000};
  /// How long a node may take to start a worker.
  std::chrono::milliseconds start_within{15'000};
  /// Failures in a row after which a session that never ran is refused.
  unsigned first_attempts = 3;
  /// The manager ends after so long without a client or a session; unset:
  /// never.
  std::optional<std::chrono::milliseconds> end_when_idle;
  /// By what right the manager leads: that of a manager which is alone, unless
  /// it was elected.
  mandate right;
  /// Gives secret numbers, for tokens and the incarnation.
  std::function<std::uint64_t()> random;
  /// Gives the seconds since 1970.
  std::function<double()> wall_time;
};

} // namespace vgpu
