// The tenants of a cluster, and what each may have.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/records/tenant_quota.hpp"

#include <optional>
#include <string>

namespace vgpu {

/// Carries out orders about tenants, and holds their sessions to their limits.
/// Of the records it changes only cluster_state::tenants. Not thread-safe.
class tenant_registry {
public:
  tenant_registry(cluster_state& state, outbox& out);
  tenant_registry(const tenant_registry&) = delete;
  tenant_registry& operator=(const tenant_registry&) = delete;

  // -- orders of admins, and questions of all ---------------------------------

  void handle(const std::string& peer, const control::envelope& from,
              const control::set_tenant& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::remove_tenant& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::tenants_request& x); // tenants see their own row

  // -- sessions ---------------------------------------------------------------

  /// Lowers the priority of a session to its tenant's largest.
  void lower_priority(session_record& x) const;
  /// Returns a fault unless its tenant may have this session besides those in
  /// the records.
  status admit(const session_record& x) const;
  /// Returns a fault unless the session in the records may become like `to`.
  /// Values that do not grow are not examined.
  status admit_change(const session_record& from,
                      const session_record& to) const;

private:
  const control::tenant_limits& limits_of(const std::string& name) const;
  tenant_use use_of(const std::string& name, session_id except = {}) const;
  status set(const control::set_tenant& x);
  status remove(const control::remove_tenant& x);
  void keep(const std::string& name,
            const std::optional<control::tenant_limits>& limits);

  cluster_state& state_;
  outbox& out_;
};

} // namespace vgpu
