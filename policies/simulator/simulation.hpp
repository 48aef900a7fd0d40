// Simulates a cluster: the manager's policies in virtual time.
#pragma once

#include "policies/compute/share.hpp"
#include "policies/lifecycle/balance.hpp"
#include "policies/lifecycle/memory_swapping.hpp"
#include "policies/lifecycle/reclaim.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/placement_plugin.hpp"
#include "policies/simulator/distribution.hpp"
#include "policies/simulator/sampled_timeline.hpp"
#include "policies/simulator/trace.hpp"
#include "policies/simulator/workload.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vgpu::simulator {

/// Describes the cluster and the policies to simulate.
struct simulation_options {
  cluster_shape cluster;
  policy::placement_strategy placement =
      policy::placement_strategy::least_loaded;
  /// Holds the plug-in's policy, which decides if it is set.
  std::shared_ptr<policy::placement_policy> own;
  /// Holds the share policy of all pGPUs.
  policy::share_policy sharing = policy::share_policy::best_effort;
  /// Holds the seconds between samples for balancing. Unset: no balancing.
  std::optional<double> balance_every = 1;
  unsigned balance_samples = 3;
  policy::balance_options balance;
  policy::reclaim_options reclaim;
  /// Configures memory swapping, where more memory may be promised than exists.
  policy::swapping_options swapping;
  /// Holds the bytes per second at which a vGPU's memory is migrated, suspended
  /// or restored. The vGPU stands still meanwhile.
  double copy_rate = 5e9;
};

/// Holds the results of a simulation.
struct outcome {
  /// Holds the seconds until the last vGPU was gone.
  double ended = 0;
  timeline over_time;
  /// Holds the means until the last vGPU arrived, since the load is not
  /// representative after that.
  levels while_coming;
  std::size_t finished = 0;
  /// Counts vGPUs that could never be placed.
  std::size_t refused = 0;
  /// Counts vGPUs that waited as long as they were willing to.
  std::size_t gave_up = 0;
  /// Counts vGPUs that still wait when no event is left.
  std::size_t never = 0;
  /// Holds the seconds of waiting for places, of the vGPUs that were not
  /// refused.
  distribution waiting;
  /// Holds the seconds of waiting for the first place only.
  distribution first_waiting;
  /// Holds the factor by which programs took longer than alone, including
  /// waiting.
  distribution slowdown;
  /// Holds Jain's index of the programs' relative speeds.
  double fairness = 1;
  /// Migrations off hot pGPUs.
  std::size_t migrations = 0;
  /// Suspensions of idle vGPUs.
  std::size_t reclaimed = 0;
  /// Suspensions for other vGPUs after the end of a turn.
  std::size_t preempted = 0;
  /// Holds the part of the time with memory that suspending and restoring for
  /// others took.
  double swapping = 0;
  /// Holds the largest number of pGPUs in use at a time.
  std::size_t most_pgpus = 0;
  /// Holds the largest number of vGPUs on a node.
  std::size_t most_on_a_node = 0;
  /// Placements on the program's own host.
  std::size_t local = 0;
  /// Placements of programs whose host has pGPUs.
  std::size_t could_be_local = 0;
  /// Placements that were tried.
  std::size_t decisions = 0;
  /// This machine's time for all decisions, in seconds.
  double decision_seconds = 0;
};

/// Simulates a trace. The same trace and options give the same outcome, except
/// for `decision_seconds`.
outcome simulate(const std::vector<arrival>& trace,
                 const simulation_options& options);

} // namespace vgpu::simulator
