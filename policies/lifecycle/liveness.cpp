#include "policies/lifecycle/liveness.hpp"

#include <algorithm>

namespace vgpu::policy {

time_point lost_at(const sightings& seen, const liveness_options& options) {
  auto silent = seen.heard + options.lost_after;
  if (!seen.closed)
    return silent;
  return std::min(silent, *seen.closed + options.reconnect_within);
}

bool is_lost(const sightings& seen, time_point now,
             const liveness_options& options) {
  return now >= lost_at(seen, options);
}

} // namespace vgpu::policy
