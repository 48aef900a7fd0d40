// Turns: one session at a time has the device, for a quantum.
#pragma once

#include "policies/compute/concurrent_engine.hpp"

namespace vgpu::policy {

/// Decides whose turn it is, and for how long. The session with the least
/// virtual time is next, among those of the highest rank.
///
/// A view of a table under one policy, made for one call.
class turn_engine {
public:
  explicit turn_engine(share_table& table)
      : turn_engine(table, row_of(table.rules.policy)) {}
  turn_engine(share_table& table, const share_policy_row& policy)
      : table_(table), state_(table.turns), accounts_(table, policy),
        concurrent_(table, policy) {}

  /// The seat has work that waits. The first call counts.
  void want(std::int32_t seat, share_ns now);
  /// The seat has no such work any more.
  void want_nothing(std::int32_t seat);
  /// The seat is about to be empty: its turn ends, and it wants none.
  void leave(std::int32_t seat);

  bool holds(std::int32_t seat) const { return state_.holder_ == seat; }
  /// Whether the seat has a turn and has brought no work in it yet.
  bool is_fresh(std::int32_t seat) const {
    return holds(seat) && state_.is_fresh();
  }
  /// How long the holder's turn still lasts.
  share_ns left_of_turn(share_ns now) const { return state_.until_ - now; }

  /// The seat brings work to the device. If the holder of a turn left the
  /// device idle while others waited, that counts as used: otherwise a session
  /// that keeps the device half idle would have it for twice as long.
  void begin_work(std::int32_t seat, share_ns now);
  /// The device is predicted to work so long on all that is in it of the
  /// seat's.
  void set_brought(std::int32_t seat, share_ns predicted);
  /// The device has nothing of the seat's to do any more. `more`: there is work
  /// at hand, and it is not for lack of it.
  void end_work(std::int32_t seat, share_ns now, bool more);
  /// Work of the seat's is done that was predicted to take so long alone, and
  /// took so long; work that was not predicted has 0 there. Charges, and
  /// returns, what the device worked or, where work of several sessions is in
  /// the device, what was predicted of that. The order of turns goes by the
  /// place: what of it the device did not work was still not the others'.
  share_ns charge(std::int32_t seat, const share_work& predicted,
                  const share_work& took, share_ns now);

  /// Whether the holder may go on after its turn's end: nobody else can have a
  /// turn in its place, or only sessions of lower rank, and it is within its
  /// limit. Then a new turn has begun.
  bool renew(std::int32_t seat, share_ns now);
  /// The same of a holder that has no work at hand just now. Only under a
  /// policy that ranks sessions.
  bool keep(std::int32_t seat, share_ns now);
  /// Ends the seat's turn, if it has one.
  void end_turn(std::int32_t seat);

  /// Takes back a turn that is not used, and gives the next. To be called when
  /// a turn has ended, by a session that waits for one, and when something
  /// changed.
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
