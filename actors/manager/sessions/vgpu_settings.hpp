// Changes the settings of vGPUs and pGPUs while programs run.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/tenant_registry.hpp"
#include "actors/manager/sessions/session_placement.hpp"

#include <string>

namespace vgpu {

/// Changes what vGPUs hold, and the share policies of pGPUs. Of the records it
/// changes sessions' specifications and quotas. Not thread-safe.
class vgpu_settings {
public:
  vgpu_settings(cluster_state& state, outbox& out, capacity_index& capacity,
                const tenant_registry& tenants, session_placement& placement);
  vgpu_settings(const vgpu_settings&) = delete;
  vgpu_settings& operator=(const vgpu_settings&) = delete;

  void handle(const std::string& peer, const control::envelope& from,
              const control::set_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::set_policy& x);

  /// Gives the client new terms while a worker serves it: a larger quota once
  /// that worker has it, because the worker would refuse the program before,
  /// and everything else at once.
  void announce_terms(session_record& x);

private:
  status check(const session_record& x, const control::set_vgpu& to) const;
  void resize(session_record& x, const control::set_vgpu& to);

  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  const tenant_registry& tenants_;
  session_placement& placement_;
};

} // namespace vgpu
