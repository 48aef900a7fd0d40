// What sessions on one pGPU get of it in the long run.
#pragma once

#include "policies/compute/share.hpp"

#include <span>
#include <vector>

namespace vgpu::policy {

struct share_user {
  share_claim claim{};
  /// What it would use if it were alone, in [0, 1]; 0: it has no work now.
  double wants = 1;
};

/// What each gets of the device's time, as a part of it, where all go on as
/// they do: what is promised, and what turns and threads come to when one does
/// not look at each. Everybody gets what he can use, or else a part that stands
/// to the others' as his weight does to theirs. Under `priority` without what
/// those get each second who would starve.
std::vector<double> grants_of(share_policy policy,
                              std::span<const share_user> users);

} // namespace vgpu::policy
