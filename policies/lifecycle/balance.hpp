// Which vGPU leaves a hot pGPU: decided one migration at a time.
#pragma once

#include "policies/placement/views.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Holds the options of balancing. Loads are in units of pGPUs: 1 is the work
/// of a program that keeps one pGPU busy, so on a pGPU with a load above 1 some
/// session waits.
struct balance_options {
  /// A pGPU is hot when its load is above 1 and exceeds the mean of its model's
  /// pGPUs by more than this. It is greater than 0.
  double threshold = 0.5;
  /// A migration removes at least this much load from the hot pGPU, and its
  /// target's load afterwards is at least this far below the hot one's before.
  /// It is greater than 0, so that in a cluster of steady programs the
  /// migrations end.
  double margin = 0.25;
  /// Says how long a vGPU that was migrated stays in its place, unless its node
  /// is drained.
  duration stays_for = std::chrono::minutes{5};
};

/// Describes a vGPU that has a place or is about to get one.
struct balanced_vgpu {
  vgpu_id id;
  place where;
  /// Holds its constraints. `previous` and `failing` are ignored.
  demand constraints{};
  /// Holds the device memory that a migration would copy, in bytes.
  std::uint64_t bytes = 0;
  /// Holds the load, from 0 to 1, that it would put on each of its pGPUs if it
  /// were alone, by load_of().
  double load = 0;
  /// Tells whether it can be migrated now, as far as is known.
  bool movable = true;
  /// Holds the time of its last migration. A recovery does not count.
  std::optional<time_point> moved{};
  /// Says until when a vGPU that could not be migrated is left alone.
  time_point rests_until{};
};

/// Describes the cluster and its vGPUs.
struct balance_view {
  /// Holds the cluster, whose loads are those of its vGPUs.
  cluster_view cluster;
  std::vector<balanced_vgpu> vgpus;
};

/// Estimates the load, in [0, 1], that a vGPU would put on a pGPU alone. `used`
/// is the part of the time in which the pGPU worked for it, and `used_by_all`
/// the sum over all of its vGPUs, of which `users` used it at all. On a pGPU
/// with idle time no vGPU waited, so each used as much as it wanted. On a fully
/// used one, each used only what the others left, unless the pGPU worked for
/// several at once. Between the two it interpolates. `limit`, in (0, 1], bounds
/// the estimate.
double load_of(double used, double used_by_all, std::size_t users,
               double limit);

/// Gives the smallest part of the time that makes a vGPU count as a user.
inline constexpr double least_use = 0.02;

/// Describes a decided migration.
struct balance_move {
  vgpu_id vgpu;
  place from;
  /// Holds one pGPU, the target.
  place to;
  /// Says what was wrong at its place, for a person.
  std::string why;
};

/// Returns the spread of loads: the sum, over all pGPUs that take sessions, of
/// the squared distance from the mean of their model. Each migration off a hot
/// pGPU reduces it by at least 2 * margin^2.
double imbalance_of(const balance_view& view);

/// Chooses at most one migration. A drained node goes first: of its vGPUs that
/// fit elsewhere, the one with the fewest bytes moves to the pGPU with the
/// least load. Otherwise, of the vGPUs that relieve the hottest pGPU by the
/// margin, the one with the fewest bytes moves to the pGPU with the least load
/// that it may have.
///
/// A target is healthy, on a node that is alive and not drained, and of the
/// same backend and model, because the program has queried both. It meets every
/// constraint, has the memory for everything promised and held, and does not
/// promise more compute than it has. A vGPU on its program's host leaves that
/// host only for a drain, unless it may be placed anywhere. vGPUs of several
/// pGPUs stay, and so do vGPUs that another one must be beside.
///
/// The same view always gives the same answer. Under steady loads, repeated
/// calls come to an end.
std::optional<balance_move> choose_move(const balance_view& view,
                                        time_point now,
                                        const balance_options& options);

/// Checks whether a hot spot persists.
class hot_spot {
public:
  /// Returns whether `looks` samples in a row have proposed a migration off the
  /// same pGPU.
  bool stays(const std::optional<balance_move>& proposed, unsigned looks);

private:
  place where_;
  unsigned looks_ = 0;
};

} // namespace vgpu::policy
