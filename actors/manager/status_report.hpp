// What `vgpu status` shows.
#pragma once

#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/peer_registry.hpp"
#include "actors/manager/cluster/term_numbers.hpp"

#include <string>

namespace vgpu {

/// Composes the cluster's status as JSON. It changes nothing. Not thread-safe.
class status_report {
public:
  status_report(const manager_options& options, const manager_clock& clock,
                const cluster_state& state, const outbox& out,
                const accounts& books, const term_numbers& numbers,
                const peer_registry& peers);
  status_report(const status_report&) = delete;
  status_report& operator=(const status_report&) = delete;

  /// Returns the status as `vgpu status --json` prints it.
  std::string json() const;

private:
  const manager_options& options_;
  const manager_clock& clock_;
  const cluster_state& state_;
  const outbox& out_;
  const accounts& accounts_;
  const term_numbers& numbers_;
  const peer_registry& peers_;
};

} // namespace vgpu
