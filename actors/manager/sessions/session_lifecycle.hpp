// The life of sessions: they are acquired, run, lose their workers and end.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/term_numbers.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "actors/manager/sessions/session_placement.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Most sessions that a cluster has, so that clients cannot exhaust a manager.
inline constexpr std::size_t most_sessions = 65'536;

/// Creates and ends sessions, and takes them off workers that failed
/// (session_stage draws the states). Of nodes it changes only, when it restores
/// sessions, which are expected. One thread.
class session_lifecycle {
public:
  session_lifecycle(const manager_options& options, manager_clock& clock,
                    cluster_state& state, outbox& out, capacity_index& capacity,
                    accounts& books, term_numbers& numbers,
                    session_placement& placement, movement& moves);
  session_lifecycle(const session_lifecycle&) = delete;
  session_lifecycle& operator=(const session_lifecycle&) = delete;

  /// Takes back the sessions that the store kept, and expects their nodes.
  void restore();

  // -- what clients say -------------------------------------------------------

  void handle(const std::string& peer, const control::envelope& from,
              const control::acquire& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::suspect& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::close_session& x);

  // -- clients come and go ----------------------------------------------------

  /// From now on the session is this connection's.
  void bind_client(session_record& x, const std::string& peer);
  void client_gone(const std::string& peer);
  /// A client of the same name connected again: it takes up what it had a lease
  /// for, and asks anew for what it had none for.
  void client_back(const std::string& peer, const std::string& name);

  // -- workers come and go ----------------------------------------------------

  /// The session's worker runs on `node`.
  void take_running(session_record& x, const std::string& node,
                    const control::running_session& running);
  /// Takes a session off its place and finds another. `failed` tells that the
  /// worker is to blame, or the pGPU.
  void displace(session_record& x, const std::string& reason, bool failed);
  /// The worker ended in order, as its client told it to: the client closes the
  /// session next, or says that it has the state.
  void await_explanation(session_record& x);
  /// Stops a worker whose epoch is not the session's.
  void fence(const std::string& node, session_id session, vgpu::epoch stale,
             const std::string& text);

  // -- time -------------------------------------------------------------------

  /// Ends sessions whose clients stay away, displaces those whose workers do
  /// not start, and stops workers that nobody claims.
  void end_overdue();
  /// Displaces sessions whose workers ended in order and whose clients are here
  /// but do not say why: what they said was lost.
  void displace_unexplained();
  /// Handles the requests that were put off until nodes come.
  void retry_early_requests();
  /// Forgets the requests that a peer put, which is gone.
  void drop_early_requests(const std::string& peer);
  /// Asks the clock for when any of this is due.
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
  session_placement& placement_;
  movement& moves_;
  /// Requests, and their peers, that cannot be admitted yet because nodes may
  /// still be on their way.
  std::vector<std::pair<std::string, control::envelope>> early_requests_;
};

} // namespace vgpu
