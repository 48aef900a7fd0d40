// Adoption: clients claim sessions for which they have leases, from a manager
// that was away or is new.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/tenant_registry.hpp"
#include "actors/manager/cluster/term_numbers.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "actors/manager/sessions/session_lifecycle.hpp"
#include "actors/manager/sessions/session_placement.hpp"

#include <string>

namespace vgpu {

/// Makes the records agree with what an adopting client reports of its session.
/// It adds sessions without a record as their client, and their node if there
/// is one, describe them. Not thread-safe.
class session_adoption {
public:
  session_adoption(const manager_options& options, manager_clock& clock,
                   cluster_state& state, outbox& out, capacity_index& capacity,
                   term_numbers& numbers, const tenant_registry& tenants,
                   session_placement& placement, movement& moves,
                   session_lifecycle& lifecycle);
  session_adoption(const session_adoption&) = delete;
  session_adoption& operator=(const session_adoption&) = delete;

  void handle(const std::string& peer, const control::envelope& from,
              const control::adopt& x);

  /// Gives the sessions of a client's key to the one that replaces it, and has
  /// their workers admit it.
  void renew_key(const std::string& former, const std::string& next);

private:
  status check_claim(const session_record& x, const control::envelope& from,
                     const control::adopt& claim) const;
  session_record* find_or_add(const std::string& peer,
                              const control::envelope& from,
                              const control::adopt& x);
  session_record* add_unknown(const std::string& peer,
                              const control::envelope& from,
                              const control::adopt& x);
  status check_vgpu(const control::adopt& x, const std::string& tenant) const;
  session_record record_of(const control::envelope& from,
                           const control::adopt& x) const;
  void set_first_stage(session_record& x, const control::adopt& told, bool runs,
                       bool young);
  void suspended_unheard(session_record& x, const control::adopt& told);
  void continue_session(session_record& x, const control::adopt& told,
                        bool has_state, bool same_client);
  void admit_client(const session_record& x);

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  term_numbers& numbers_;
  const tenant_registry& tenants_;
  session_placement& placement_;
  movement& moves_;
  session_lifecycle& lifecycle_;
};

} // namespace vgpu
