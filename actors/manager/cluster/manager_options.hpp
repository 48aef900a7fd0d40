// A manager's configuration.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/audit_log.hpp"
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
  /// Holds the endpoint where the manager listens, for the status.
  std::string endpoint;
  /// Tells whether it listens on a network without keys, for the status.
  bool insecure_network = false;
  std::chrono::milliseconds beat_every{100};
  policy::liveness_options liveness;
  policy::restart_options restart;
  policy::reclaim_options reclaim;
  policy::swapping_options swapping;
  /// Says how often the balancer samples the pGPUs' loads; unset: never.
  std::optional<std::chrono::milliseconds> balance_every{1'000};
  /// Says in how many samples in a row a pGPU must be too hot before a vGPU
  /// moves.
  unsigned balance_samples = 3;
  policy::balance_options balance;
  /// Says how a place is chosen for a vGPU that has none. Moves by command or
  /// by the balancer follow rules of their own.
  policy::placement_strategy placement =
      policy::placement_strategy::least_loaded;
  /// Holds the user's own policy, which replaces `placement`; null: none.
  std::shared_ptr<policy::placement_policy> own_placement;
  /// Holds the policy's name, for the status.
  std::string placement_name = "least-loaded";
  /// Says how long a client may be without a connection before its sessions
  /// close.
  std::chrono::milliseconds client_grace{5'000};
  /// Says how long sessions wait for their clients after a restart.
  std::chrono::milliseconds restart_grace{10'000};
  /// Says how long nodes may take to come back after a restart.
  std::chrono::milliseconds node_grace{2'000};
  /// Says how long a node may take to start a worker.
  std::chrono::milliseconds start_within{15'000};
  /// Limits the failures in a row of a session that never ran; then it is
  /// refused.
  unsigned first_attempts = 3;
  /// Says after how long without a client or a session the manager ends; unset:
  /// never.
  std::optional<std::chrono::milliseconds> end_when_idle;
  /// Holds the mandate by which the manager leads. The default is that of a
  /// single manager; an election sets another.
  mandate right;
  /// Permits the key of a newcomer, whom the principal names. Null: the manager
  /// has no keys.
  std::function<status(const principal&, const control::enroll&)> enroll;
  /// Returns what a peer must be told because keys rotate; unset: nothing.
  /// Null: the manager has no keys.
  std::function<std::optional<control::rotate_key>(const principal&)> rotation;
  /// Permits another key in place of the peer's. Null: the manager has no keys.
  std::function<status(const principal&, const control::renew_key&)> renew;
  /// Holds who may connect; null: the manager has no keys.
  std::shared_ptr<const permitted_keys> permitted;
  /// Keeps who ordered what; null: nobody does.
  std::shared_ptr<audit_log> audit;
  /// Returns secret random numbers, for tokens and the incarnation.
  std::function<std::uint64_t()> random;
  /// Returns the seconds since 1970.
  std::function<double()> wall_time;
};

} // namespace vgpu
