// Turns: one session at a time has the device, for a quantum.
#pragma once

#include "policies/compute/concurrent_engine.hpp"

namespace vgpu::policy {

/// Decides whose turn it is, and for how long. The session with the least
/// virtual time is next, among those of the highest rank.
///
/// It is a view of a table under one policy, made for one call.
class turn_engine {
public:
  explicit turn_engine(share_table& table)
      : turn_engine(table, row_of(table.rules.policy)) {}
  turn_engine(share_table& table, const share_policy_row& policy)
      : table_(table), state_(table.turns), accounts_(table, policy),
        concurrent_(table, policy) {}

  /// Records that the seat has work that waits. Only the first call counts.
  void want(std::int32_t seat, share_ns now);
  /// Records that the seat has no waiting work any more.
  void want_nothing(std::int32_t seat);
  /// Ends the seat's turn and its waiting, before the seat becomes free.
  void leave(std::int32_t seat);

  bool holds(std::int32_t seat) const { return state_.holder_ == seat; }
  /// Returns whether the seat has a turn and has brought no work in it yet.
  bool is_fresh(std::int32_t seat) const {
    return holds(seat) && state_.is_fresh();
  }
  /// Returns how long the holder's turn still lasts.
  share_ns left_of_turn(share_ns now) const { return state_.until_ - now; }

  /// Records that the seat brings work to the device. Time for which the holder
  /// of a turn left the device idle while others waited counts as used.
  /// Otherwise a session that keeps the device half idle would have it for
  /// twice as long.
  void begin_work(std::int32_t seat, share_ns now);
  /// Sets the predicted time for which the device will work on the seat's work
  /// that is in it.
  void set_brought(std::int32_t seat, share_ns predicted);
  /// Records that the device has no more work of the seat. `more` says that the
  /// seat still has work at hand.
  void end_work(std::int32_t seat, share_ns now, bool more);
  /// Records finished work of the seat, with the predicted time that it takes
  /// alone (0: not predicted) and the time that it took. Charges and returns
  /// the time for which the device worked, or the predicted one while several
  /// sessions have work in the device. The order of turns counts all the time
  /// for which the work had its place, because no other session had the device
  /// then.
  share_ns charge(std::int32_t seat, const share_work& predicted,
                  const share_work& took, share_ns now);

  /// Begins a new turn of the holder, and returns true, if the holder is within
  /// its limit and no session waits but those of lower rank.
  bool renew(std::int32_t seat, share_ns now);
  /// Does what renew() does for a holder without work at hand, but only under a
  /// policy that ranks sessions.
  bool keep(std::int32_t seat, share_ns now);
  /// Ends the seat's turn, if it has one.
  void end_turn(std::int32_t seat);

  /// Takes back an unused turn, and gives the next one. Call it when a turn has
  /// ended, when a session waits for one, and when something changed.
  share_outcome arbitrate(share_ns now);

private:
  struct candidate;

  share_ns turn_lately() const;
  void note_turn(share_ns now);
  void leave_turns(share_ns now);
  void limit_lag(share_seat& x) const;
  bool is_starved(const share_seat& x, share_ns when) const;
  bool outranks(const share_seat& a, const share_seat& b, share_ns now) const;
  bool goes_before(const share_seat& a, const share_seat& b,
                   share_ns now) const;
  candidate find_next(share_ns now);
  bool is_outranked(const share_seat& x, share_ns now) const;
  share_ns full_turn(const share_seat& x, share_ns now) const;
  void set_turn(const share_seat& x, share_ns now);
  void begin_turn(std::int32_t seat, share_ns now);
  bool yields(const share_seat& to, share_ns now) const;
  share_ns take_back(std::int32_t next, share_ns now);
  share_outcome admit_waiting(share_ns now);

  share_table& table_;
  turn_state& state_;
  share_accounts accounts_;
  concurrent_engine concurrent_;
};

} // namespace vgpu::policy
