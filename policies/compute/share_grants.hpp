// What sessions on one pGPU get of it in the long run.
#pragma once

#include "policies/compute/share_policies.hpp"

#include <span>
#include <vector>

namespace vgpu::policy {

struct share_user {
  share_claim claim{};
  /// What the session would use if it were alone, in [0, 1]; 0: it has no work
  /// now.
  double wants = 1;
};

/// What each session gets of the device's time, as a part of it, while all go
/// on as they do: what is promised, and what turns and threads come to. Each
/// gets what it can use, or otherwise a part that stands to the others' as its
/// weight does to theirs. Under a policy that ranks sessions this does not
/// count what those get each second that would starve.
std::vector<double> grants_of(const share_policy_row& policy,
                              std::span<const share_user> users);

inline std::vector<double> grants_of(share_policy policy,
                                     std::span<const share_user> users) {
  return grants_of(row_of(policy), users);
}

} // namespace vgpu::policy
