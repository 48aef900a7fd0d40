// The parts of a pGPU that its sessions get in the long run.
#pragma once

#include "policies/compute/share_policies.hpp"

#include <span>
#include <vector>

namespace vgpu::policy {

struct share_user {
  share_claim claim{};
  /// Holds the part of the device that the session would use if it were alone,
  /// in [0, 1]. 0: it has no work now.
  double wants = 1;
};

/// Returns the part of the device's time that each session gets in the long
/// run, if all continue as they do. A session gets what it can use, or
/// otherwise a part in proportion to its weight. Under a policy that ranks
/// sessions, the result ignores the turns that starved sessions get.
std::vector<double> grants_of(const share_policy_row& policy,
                              std::span<const share_user> users);

inline std::vector<double> grants_of(share_policy policy,
                                     std::span<const share_user> users) {
  return grants_of(row_of(policy), users);
}

} // namespace vgpu::policy
