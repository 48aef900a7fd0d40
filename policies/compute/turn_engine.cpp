#include "policies/compute/turn_engine.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vgpu::policy {

namespace {

/// A waiting session that gets no message for this long asks again.
constexpr share_ns longest_wait = 50'000'000;
/// Gives the time between checks whether the holder is idle.
constexpr share_ns idle_check = 10'000'000;
/// Gives the time after which a session that may not join asks again.
constexpr share_ns join_check = 5'000'000;
/// Gives the turns that a session without work may lag behind the others.
constexpr double most_lag = 2;
/// Gives the quanta by which a longer turn counts in turn_lately().
constexpr share_ns longest_turn = 10;
/// A session that had work within this time is expected to bring more.
constexpr share_ns recently = 1'000'000'000;
/// Meanwhile sessions of lower rank get turns of a quantum divided by this,
/// because work that is in the device cannot be taken back.
constexpr share_ns part_of_quantum = 8;

share_outcome nobody_until(share_ns when, share_ns now) {
  return {share_table::nobody, {}, std::max(when, now)};
}

} // namespace

/// Holds the next seat, or the time when there will be one.
struct turn_engine::candidate {
  std::int32_t seat = share_table::nobody;
  share_ns next_credit = std::numeric_limits<share_ns>::max();
};

// -- the order of turns -------------------------------------------------------

/// Returns the length of recent turns. Long kernels, which cannot be stopped,
/// make turns longer than a quantum.
share_ns turn_engine::turn_lately() const {
  return std::max(table_.rules.quantum, state_.lately());
}

/// Limits how far a session lags behind, so that it cannot save up time for
/// which it had no work. A session that only missed a turn still gets all of
/// it.
void turn_engine::limit_lag(share_seat& x) const {
  auto floor = table_.virtual_now -
               most_lag * static_cast<double>(turn_lately()) / x.weight;
  x.virtual_time = std::max(x.virtual_time, floor);
}

/// Returns whether a session had waited for a turn for so long, at this time,
/// that its rank does not count any more.
bool turn_engine::is_starved(const share_seat& x, share_ns when) const {
  return when - x.turn.wants_since_ >= table_.rules.starved_after;
}

/// Returns whether `a`, which has or wants a turn, goes before `b`, which wants
/// one, because of its rank.
bool turn_engine::outranks(const share_seat& a, const share_seat& b,
                           share_ns now) const {
  return accounts_.rank_of(a) > accounts_.rank_of(b) && !is_starved(b, now);
}

/// Returns whether `a` goes before `b`. Both want a turn.
bool turn_engine::goes_before(const share_seat& a, const share_seat& b,
                              share_ns now) const {
  if (accounts_.policy().ranks()) {
    auto starved = is_starved(a, now);
    if (starved != is_starved(b, now))
      return starved;
    if (starved)
      return a.turn.wants_since_ < b.turn.wants_since_;
    if (accounts_.rank_of(a) != accounts_.rank_of(b))
      return accounts_.rank_of(a) > accounts_.rank_of(b);
  }
  if (a.virtual_time != b.virtual_time)
    return a.virtual_time < b.virtual_time;
  return a.turn.wants_since_ < b.turn.wants_since_;
}

turn_engine::candidate turn_engine::find_next(share_ns now) {
  candidate out;
  for (auto i = std::int32_t{0};
       state_.waiting_ != 0 && i < static_cast<std::int32_t>(table_.seated);
       ++i) {
    auto& x = accounts_.at(i);
    if (x.wants == 0)
      continue;
    accounts_.refill(x, now);
    if (auto when = accounts_.credit_at(x); when > now) {
      out.next_credit = std::min(out.next_credit, when);
      continue;
    }
    limit_lag(x);
    if (out.seat == share_table::nobody ||
        goes_before(x, accounts_.at(out.seat), now))
      out.seat = i;
  }
  return out;
}

/// Returns whether a session of higher rank uses the device, or used it
/// recently. Returns false for a starved session, which gets a whole turn.
bool turn_engine::is_outranked(const share_seat& x, share_ns now) const {
  return !is_starved(x, now) &&
         std::ranges::any_of(accounts_.seated(), [&](const share_seat& y) {
           auto uses = y.wants != 0 || y.working != 0 ||
                       (y.heard_at != 0 && now - y.heard_at < recently);
           return y.taken != 0 && uses && outranks(y, x, now);
         });
}

// -- a turn -------------------------------------------------------------------

/// Returns the length of a turn. In the first round turns are short, because
/// they only measure what work takes.
share_ns turn_engine::full_turn(const share_seat& x, share_ns now) const {
  auto quantum = table_.rules.quantum;
  if (accounts_.policy().ranks())
    return is_outranked(x, now) ? quantum / part_of_quantum : quantum;
  auto first = table_.rules.joins != 0 &&
               table_.concurrent.turns_since() <= table_.seated;
  return first ? quantum / 2 : quantum;
}

void turn_engine::set_turn(const share_seat& x, share_ns now) {
  auto length = full_turn(x, now);
  if (accounts_.cap_of(x) < 1)
    length = std::min(length, static_cast<share_ns>(x.credit));
  state_.began_ = now;
  state_.until_ = now + length;
  table_.virtual_now = std::max(table_.virtual_now, x.virtual_time);
}

void turn_engine::begin_turn(std::int32_t seat, share_ns now) {
  auto& x = accounts_.at(seat);
  note_turn(now);
  want_nothing(seat);
  state_.holder_ = state_.had_turn_ = seat;
  set_turn(x, now);
  state_.idle_since_ = now; // until it brings work
  ++x.turns;
  concurrent_.note_turn_begins();
}

/// Records how long the last turn took.
void turn_engine::note_turn(share_ns now) {
  if (state_.began_ == 0) // There was no turn before.
    return;
  auto last = std::clamp<share_ns>(now - state_.began_, 0,
                                   longest_turn * table_.rules.quantum);
  if (state_.had_turn_ != share_table::nobody)
    concurrent_.note_turn_took(state_.had_turn_, last);
  auto faded = state_.lately() / 8 * 7;
  state_.lately_us_ = static_cast<std::uint32_t>(std::max(last, faded) / 1000);
}

/// Ends the last turn, because there are no turns for some time.
void turn_engine::leave_turns(share_ns now) {
  note_turn(now);
  state_.began_ = 0;
}

/// Returns whether the holder's turn ends because `to` wants one. The turn of a
/// session that was starved does not.
bool turn_engine::yields(const share_seat& to, share_ns now) const {
  if (state_.holder_ == share_table::nobody)
    return false;
  const auto& holder = accounts_.at(state_.holder_);
  return outranks(to, holder, now) && !is_starved(holder, state_.began_);
}

void turn_engine::want(std::int32_t seat, share_ns now) {
  auto& x = accounts_.at(seat);
  if (x.taken == 0 || x.wants != 0)
    return;
  x.wants = 1;
  x.let_in = 0;
  x.turn.wants_since_ = now;
  ++state_.waiting_;
  if (yields(x, now))
    state_.until_ = std::min(state_.until_, now);
}

void turn_engine::want_nothing(std::int32_t seat) {
  if (std::exchange(accounts_.at(seat).wants, 0) != 0)
    --state_.waiting_;
}

void turn_engine::leave(std::int32_t seat) {
  end_turn(seat);
  if (state_.had_turn_ == seat)
    state_.had_turn_ = share_table::nobody;
  want_nothing(seat);
}

void turn_engine::begin_work(std::int32_t seat, share_ns now) {
  auto& x = accounts_.at(seat);
  x.let_in = 0;
  if (x.working == 0) {
    x.heard_at = now;
    x.working = 1;
  }
  if (!holds(seat) || state_.idle_since_ == 0)
    return;
  // If there was work at hand, the worker was late, and the session does not
  // pay for the idle time.
  if (!is_fresh(seat) && x.turn.more_ == 0 && state_.waiting_ != 0)
    x.virtual_time += static_cast<double>(now - state_.idle_since_) / x.weight;
  state_.idle_since_ = 0;
}

void turn_engine::set_brought(std::int32_t seat, share_ns predicted) {
  accounts_.at(seat).brought = static_cast<double>(predicted);
}

void turn_engine::end_work(std::int32_t seat, share_ns now, bool more) {
  auto& x = accounts_.at(seat);
  x.turn.more_ = more ? 1 : 0;
  x.working = 0;
  x.heard_at = now;
  if (holds(seat))
    state_.idle_since_ = now;
}

share_ns turn_engine::charge(std::int32_t seat, const share_work& predicted,
                             const share_work& took, share_ns now) {
  auto& x = accounts_.at(seat);
  if (x.taken == 0)
    return 0;
  auto among_others = table_.concurrent.is_on() || table_.concurrent.drains();
  const auto& length = among_others ? predicted : took;
  accounts_.use(x, static_cast<double>(length.worked), now);
  if (!among_others)
    x.virtual_time +=
        static_cast<double>(std::max<share_ns>(took.held - took.worked, 0)) /
        x.weight;
  concurrent_.note_done(seat, predicted, took, now);
  return length.worked;
}

bool turn_engine::renew(std::int32_t seat, share_ns now) {
  if (!holds(seat))
    return false;
  auto& x = accounts_.at(seat);
  accounts_.refill(x, now);
  if (accounts_.credit_at(x) > now)
    return false;
  auto next = find_next(now).seat;
  if (next != share_table::nobody && !outranks(x, accounts_.at(next), now))
    return false;
  x.turn.wants_since_ = now; // It does not count as starved any more.
  set_turn(x, now);
  return true;
}

bool turn_engine::keep(std::int32_t seat, share_ns now) {
  return accounts_.policy().ranks() && renew(seat, now);
}

void turn_engine::end_turn(std::int32_t seat) {
  if (holds(seat))
    state_.holder_ = share_table::nobody;
}

// -- whose turn it is ---------------------------------------------------------

/// Takes back a turn that is unused, or whose work does not end. Returns when
/// that has to be checked again. `next` is the seat with the next turn.
share_ns turn_engine::take_back(std::int32_t next, share_ns now) {
  // A busy holder may become idle soon. An idle one loses its turn after a
  // while.
  auto idle = now + idle_check;
  if (state_.idle_since_ != 0 && yields(accounts_.at(next), now))
    idle = now;
  else if (state_.idle_since_ != 0)
    idle = state_.idle_since_ + (is_fresh(state_.holder_)
                                     ? table_.rules.unused_after
                                     : table_.rules.idle_after);
  auto until = std::min(idle, state_.began_ + table_.rules.stalled_after);
  if (now >= until)
    end_turn(state_.holder_);
  return until;
}

/// Admits all waiting sessions that may join.
share_outcome turn_engine::admit_waiting(share_ns now) {
  share_outcome out;
  out.look_again = now + join_check;
  for (auto i = std::int32_t{0}; i < static_cast<std::int32_t>(table_.seated);
       ++i)
    if (accounts_.at(i).wants != 0 && concurrent_.may_join(i, now)) {
      want_nothing(i);
      accounts_.at(i).let_in = 1;
      out.let_in.set(static_cast<std::size_t>(i));
    }
  return out;
}

share_outcome turn_engine::arbitrate(share_ns now) {
  if (table_.concurrent.is_on())
    return admit_waiting(now);
  auto next = find_next(now);
  auto look = std::min(next.next_credit, now + longest_wait);
  if (next.seat == share_table::nobody)
    return nobody_until(look, now);
  if (state_.holder_ != share_table::nobody)
    look = std::min(look, take_back(next.seat, now));
  if (state_.holder_ != share_table::nobody)
    return nobody_until(look, now);
  if (concurrent_.drains(now))
    return nobody_until(now + idle_check, now);
  if (concurrent_.try_begin(now)) {
    leave_turns(now);
    return admit_waiting(now);
  }
  begin_turn(next.seat, now);
  return {next.seat, {}, now + idle_check};
}

} // namespace vgpu::policy
