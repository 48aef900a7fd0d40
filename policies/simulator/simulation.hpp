// A cluster's days in seconds: the manager's policies in virtual time.
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

struct simulation_options {
  cluster_shape cluster;
  policy::placement_strategy placement =
      policy::placement_strategy::least_loaded;
  std::shared_ptr<policy::placement_policy> own; // set: it decides
  /// How a pGPU's time is shared.
  policy::share_policy sharing = policy::share_policy::best_effort;
  /// Seconds between looks for pGPUs with too much to do; unset: none.
  std::optional<double> balance_every = 1;
  unsigned balance_samples = 3;
  policy::balance_options balance;
  policy::reclaim_options reclaim;
  /// Where more memory may be promised than there is.
  policy::swapping_options swapping;
  /// Bytes a second at which a vGPU's memory is moved, put away or brought
  /// back; it does nothing meanwhile.
  double copy_rate = 5e9;
};

struct outcome {
  double ended = 0; // seconds until the last vGPU was gone
  timeline over_time;
  /// Means until the last vGPU came: what comes after is no load but a rest.
  levels while_coming;
  std::size_t finished = 0;
  std::size_t refused = 0;    // could never be placed
  std::size_t gave_up = 0;    // waited for as long as it was ready to
  std::size_t never = 0;      // waits still when nothing happens any more
  distribution waiting;       // seconds for a place, of those not refused
  distribution first_waiting; // the same, for the first place alone
  distribution slowdown;      // how many times as long as alone, waiting too
  double fairness = 1;        // Jain's index of what was left of their speed
  std::size_t migrations = 0; // off hot pGPUs
  std::size_t reclaimed = 0;  // suspensions of idle ones
  std::size_t preempted = 0;  // left for others, their turns being over
  /// Of the time for which vGPUs had memory, what coming and going for others
  /// took.
  double swapping = 0;
  std::size_t most_pgpus = 0;     // in use at a time
  std::size_t most_on_a_node = 0; // vGPUs
  /// Placements on the program's host, of those whose program's host has GPUs.
  std::size_t local = 0;
  std::size_t could_be_local = 0;
  std::size_t decisions = 0;   // placements tried
  double decision_seconds = 0; // of this machine's time, which they took
};

/// What becomes of a trace. The same trace and options give the same outcome,
/// but for `decision_seconds`.
outcome simulate(const std::vector<arrival>& trace,
                 const simulation_options& options);

} // namespace vgpu::simulator
