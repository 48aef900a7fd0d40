#include "policies/lifecycle/liveness.hpp"

#include <algorithm>

namespace vgpu::policy {

time_point lost_at(const sightings& seen, const liveness_options& options) {
  // A doubt gives the whole time anew, and comes once.
  if (seen.doubted)
    return *seen.doubted + options.lost_after;
  auto silent = seen.heard + options.lost_after;
  if (!seen.closed)
    return silent;
  return std::min(silent, *seen.closed + options.reconnect_within);
}

bool is_lost(const sightings& seen, time_point now,
             const liveness_options& options) {
  return now >= lost_at(seen, options);
}

bool is_silent(const sightings& seen, time_point now,
               const liveness_options& options) {
  return seen.closed || now >= seen.heard + options.lost_after / 2;
}

bool is_mass_silence(std::size_t silent, std::size_t peers) noexcept {
  return silent > 1 && 2 * silent > peers;
}

} // namespace vgpu::policy
