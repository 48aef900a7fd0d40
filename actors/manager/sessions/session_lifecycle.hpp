// The life of sessions: they are acquired, run, lose their workers and end.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/tenant_registry.hpp"
#include "actors/manager/cluster/term_numbers.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "actors/manager/sessions/session_placement.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Limits the sessions of a cluster, so that clients cannot exhaust a manager.
inline constexpr std::size_t most_sessions = 65'536;

/// Creates and ends sessions, and takes them off workers that failed
/// (session_stage draws the states). Of nodes it changes only which are
/// expected, when it restores sessions. Not thread-safe.
class session_lifecycle {
public:
  session_lifecycle(const manager_options& options, manager_clock& clock,
                    cluster_state& state, outbox& out, capacity_index& capacity,
                    accounts& books, term_numbers& numbers,
                    const tenant_registry& tenants,
                    session_placement& placement, movement& moves);
  session_lifecycle(const session_lifecycle&) = delete;
  session_lifecycle& operator=(const session_lifecycle&) = delete;

  /// Restores the sessions that the store kept, and expects their nodes.
  void restore();

  // -- messages of clients ----------------------------------------------------

  void handle(const std::string& peer, const control::envelope& from,
              const control::acquire& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::suspect& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::close_session& x);

  // -- clients come and go ----------------------------------------------------

  /// Binds the session to this connection.
  void bind_client(session_record& x, const std::string& peer);
  void client_gone(const std::string& peer);
  /// Ends the sessions whose clients proved a key that is not permitted any
  /// more. Such a client does not come back, so its workers are not left to it
  /// for the time that others have to do so.
  void end_revoked();
  /// Handles a client that connected again under the same name. It adopts the
  /// sessions for which it has leases, and asks anew for the others.
  void client_back(const std::string& name);

  // -- workers come and go ----------------------------------------------------

  /// Records that the session's worker runs on `node`.
  void take_running(session_record& x, const std::string& node,
                    const control::running_session& running);
  /// Takes a session off its place and finds another. `failed` says that the
  /// worker or the pGPU is to blame.
  void displace(session_record& x, const std::string& reason, bool failed);
  /// Waits for the client to say why the worker ended in order: it closes the
  /// session next, or has the state.
  void await_explanation(session_record& x);
  /// Stops a worker whose epoch is not the session's.
  void fence(const std::string& node, session_id session, vgpu::epoch stale,
             const std::string& text);

  // -- time -------------------------------------------------------------------

  /// Ends sessions whose clients stay away, displaces those whose workers do
  /// not start, and stops unclaimed workers.
  void end_overdue();
  /// Displaces sessions whose workers ended in order, and whose connected
  /// clients do not say why: their message was lost.
  void displace_unexplained();
  /// Handles the requests that were postponed until nodes register.
  void retry_early_requests();
  /// Drops the postponed requests of a peer that is gone.
  void drop_early_requests(const std::string& peer);
  /// Asks the clock for a tick when any of this is due.
  void ask_for_ticks() const;

private:
  status admit(session_record& x);
  void give_up(session_record& x, const std::string& why);
  void end(session_id id, const std::string& why);

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  outbox& out_;
  capacity_index& capacity_;
  accounts& accounts_;
  term_numbers& numbers_;
  const tenant_registry& tenants_;
  session_placement& placement_;
  movement& moves_;
  /// Holds requests, with their peers, that cannot be admitted yet because
  /// nodes may still register.
  std::vector<std::pair<std::string, control::envelope>> early_requests_;
};

} // namespace vgpu
