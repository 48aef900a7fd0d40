// Which vGPU moves where: hot spots are cured, one move at a time.
#pragma once

#include "policies/placement/views.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Loads are in pGPUs: 1 is the work of a program that keeps one pGPU busy, so
/// a pGPU with a load above 1 makes somebody wait.
struct balance_options {
  /// A pGPU is hot when its load is above 1, and above the mean of the pGPUs of
  /// its model by more than this. Greater than 0.
  double threshold = 0.5;
  /// A move takes at least so much off the hot pGPU, and leaves its target at
  /// least so far below what the hot one had. Greater than 0: of a cluster
  /// whose programs go on as they do, only so many moves come out.
  double margin = 0.25;
  /// A vGPU that was moved is left where it is for so long, unless its node is
  /// drained.
  duration stays_for = std::chrono::minutes{5};
};

/// A vGPU that has, or is about to have, a place.
struct balanced_vgpu {
  vgpu_id id;
  place where;
  /// What a place for it must have; `previous` and `failing` do not matter.
  demand constraints{};
  /// Of device memory, which a move would copy.
  std::uint64_t bytes = 0;
  /// What it would use if it were alone, in [0, 1] of each of its pGPUs;
  /// load_of().
  double load = 0;
  /// It can be moved now, as far as is known.
  bool movable = true;
  std::optional<time_point> moved{}; // last, on purpose
  /// It could not be moved, and is left alone until then.
  time_point rests_until{};
};

struct balance_view {
  /// Without the load: that is its vGPUs'.
  cluster_view cluster;
  std::vector<balanced_vgpu> vgpus;
};

/// What a vGPU would use of a pGPU alone, in [0, 1]. `used` is the part of the
/// time in which the pGPU worked for it; `used_by_all` the sum over those that
/// were at it, `users` of which used it at all. On a pGPU that had time left,
/// nobody waited: everybody used what he wanted. On one that had none, what
/// each used is what was left to him by others, unless it worked for several at
/// a time; in between, it is in between. `limit`, in (0, 1], is what it may
/// use.
double load_of(double used, double used_by_all, std::size_t users,
               double limit);

/// The part of the time from which on a vGPU counts as a user.
inline constexpr double least_use = 0.02;

struct balance_move {
  vgpu_id vgpu;
  place from;
  place to; // one pGPU
  /// For a person: what was wrong where it is.
  std::string why;
};

/// The spread of loads: the sum over all pGPUs that take sessions of the
/// squared distance from the mean of their model. No move of a hot spot's makes
/// it larger; each makes it smaller by 2 * margin^2 at least.
double imbalance_of(const balance_view& view);

/// At most one move. A node that is drained goes first: whatever of its fits
/// elsewhere, the fewest bytes first, to where the least load is. Otherwise the
/// vGPU with the fewest bytes that brings the hottest pGPU down by a margin, to
/// the pGPU with the least load that it may have.
///
/// A target is healthy, on a node that is alive and not drained, of the same
/// backend and model (a program has asked its device for both), meets every
/// wish, has the memory for what was promised and for what is held, and does
/// not promise more compute than it has. A vGPU that is on its program's host,
/// and is not to be placed anywhere, leaves that host for a drain alone. vGPUs
/// of several GPUs, and those that others are to be beside, stay.
///
/// The same view always gives the same answer. Applied again and again, with
/// loads that stay, it ends.
std::optional<balance_move> choose_move(const balance_view& view,
                                        time_point now,
                                        const balance_options& options);

/// Waits whether a hot spot stays one.
class hot_spot {
public:
  /// Whether looks have proposed a move off the same pGPU so often in a row.
  bool stays(const std::optional<balance_move>& proposed, unsigned looks);

private:
  place where_;
  unsigned looks_ = 0;
};

} // namespace vgpu::policy
