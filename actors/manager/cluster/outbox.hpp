// A manager's messages to its peers, and the cluster's events.
#pragma once

#include "actors/link/log_limit.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/event_log.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/records/event_kind.hpp"
#include "actors/records/event_tally.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

namespace vgpu {

/// Says what an event is about. Empty or zero members do not apply.
struct event_subject {
  std::string node{};
  session_id session{};
  vgpu_id vgpu{};
  vgpu::epoch epoch{};
  std::uint64_t bytes = 0;
  double milliseconds = 0;
  /// Names whose it is; empty: that of the session, if there is one.
  std::string tenant{};
};

/// Returns the session as a subject, with its present or latest place.
event_subject subject_of(const session_record& x);

/// Sends messages to peers, and keeps, counts and publishes events. Of the
/// records it reads only the nodes' connections. Not thread-safe.
class outbox {
public:
  using sender =
      std::function<void(const std::string& peer, control::envelope what)>;

  /// Writes events to the state's store, too, if it has one.
  outbox(sender send, std::function<double()> wall_time, manager_clock& clock,
         const cluster_state& state);
  outbox(const outbox&) = delete;
  outbox& operator=(const outbox&) = delete;

  // -- messages ---------------------------------------------------------------

  /// Answers a peer. With a `request` of 0 the message is no answer.
  void answer(const std::string& peer, std::uint64_t request,
              control::body what);
  /// Refuses a peer's message, and logs it.
  void refuse(const std::string& peer, const control::envelope& what,
              fault why);
  /// Sends to a node by its name. Returns false when the node is not alive.
  bool to_node(const std::string& name, control::body what);

  // -- events -----------------------------------------------------------------

  /// Publishes an event of the manager's own.
  void emit(event_kind kind, std::string text, event_subject what = {});
  /// Publishes an event that a peer reports about itself or its sessions, or
  /// that a command reports, and refuses others.
  void handle(const std::string& peer, const control::envelope& from,
              const control::event& x);
  /// Answers with the events after a number, at once or when there are some. A
  /// tenant sees those of its sessions.
  void handle(const std::string& peer, const control::envelope& from,
              const control::events_request& x);
  /// Answers the requests whose events have come, or whose time is over.
  void serve_waiters();
  /// Drops the requests of a peer that is gone.
  void drop(const std::string& peer) { events_.drop(peer); }
  /// Restores what the store kept, oldest first.
  void restore(std::deque<control::event> kept);

  /// Returns the number of the latest event; 0: there was none.
  std::uint64_t last_event() const noexcept { return events_.last(); }
  /// Returns the counts of events since this manager began.
  const event_tally& tallies() const noexcept { return tallies_; }
  /// Returns when the next waiting request must be answered.
  std::optional<time_point> next_deadline() const;

private:
  bool may_report(const std::string& peer, const control::envelope& from,
                  const control::event& x) const;
  std::string tenant_of_session(session_id id) const;
  void publish(control::event what);

  sender send_;
  std::function<double()> wall_time_;
  manager_clock& clock_;
  const cluster_state& state_;
  event_log events_;
  event_tally tallies_;
  log_limit refusals_;
};

} // namespace vgpu
