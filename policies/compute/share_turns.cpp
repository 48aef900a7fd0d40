#include "policies/compute/share_account.hpp"
#include "policies/compute/share_concurrent.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vgpu::policy {

using namespace share_account;

namespace {

/// Who waits longer than this without hearing anything looks again.
constexpr share_ns longest_wait = 50'000'000;
/// So often somebody looks whether the holder has fallen idle.
constexpr share_ns idle_look = 10'000'000;
/// So often who may not join looks again.
constexpr share_ns join_look = 5'000'000;
/// In turns: how far one who had no work may lag behind the others.
constexpr double most_lag = 2;
/// In quanta: a turn that lasted longer counts as one of this length there.
constexpr share_ns longest_turn = 10;
/// Whoever had work within this time may come again soon: those of lower
/// priority get short turns, this part of a quantum, as what they have brought
/// to the device cannot be taken back.
constexpr share_ns lately = 1'000'000'000;
constexpr share_ns part_of_quantum = 8;

/// Turns last longer than they should where work cannot be stopped: long
/// kernels.
share_ns turn_lately(const share_table& table) {
  return std::max(table.rules.quantum, share_ns{table.lately_us} * 1000);
}

void note_turn(share_table& table, share_ns now) {
  if (table.began == 0) // there was none before
    return;
  auto last = std::clamp<share_ns>(now - table.began, 0,
                                   longest_turn * table.rules.quantum);
  if (table.had_turn != share_table::nobody)
    at(table, table.had_turn).turns_took += static_cast<double>(last);
  auto faded = share_ns{table.lately_us} * 1000 / 8 * 7;
  table.lately_us = static_cast<std::uint32_t>(std::max(last, faded) / 1000);
}

/// There are none for a while, which is no turn of whoever had the last one.
void leave_turns(share_table& table, share_ns now) {
  note_turn(table, now);
  table.began = 0;
}

/// Nobody saves up what he did not ask for while others used it. But who only
/// missed a turn, having no work at hand just then, is owed all of it.
void limit_lag(const share_table& table, share_seat& x) {
  auto floor = table.virtual_now -
               most_lag * static_cast<double>(turn_lately(table)) / x.weight;
  x.virtual_time = std::max(x.virtual_time, floor);
}

/// Whether it has waited for a turn for so long, at this time, that priority
/// counts no more.
bool is_starved(const share_table& table, const share_seat& x, share_ns when) {
  return when - x.wants_since >= table.rules.starved_after;
}

/// Whether `a`, which may have the turn or want one, comes before `b`, which
/// wants one, whatever either had.
bool outranks(const share_table& table, const share_seat& a,
              const share_seat& b, share_ns now) {
  return table.rules.policy == share_policy::priority &&
         a.claim.priority > b.claim.priority && !is_starved(table, b, now);
}

/// Whether `a` goes before `b`; both want a turn.
bool before(const share_table& table, const share_seat& a, const share_seat& b,
            share_ns now) {
  if (table.rules.policy == share_policy::priority) {
    auto starved = is_starved(table, a, now);
    if (starved != is_starved(table, b, now))
      return starved;
    if (starved)
      return a.wants_since < b.wants_since;
    if (a.claim.priority != b.claim.priority)
      return a.claim.priority > b.claim.priority;
  }
  if (a.virtual_time != b.virtual_time)
    return a.virtual_time < b.virtual_time;
  return a.wants_since < b.wants_since;
}

struct candidate {
  std::int32_t seat = share_table::nobody;
  share_ns next_credit = std::numeric_limits<share_ns>::max();
};

/// Who is next; or when somebody will be.
candidate find_next(share_table& table, share_ns now) {
  candidate out;
  for (auto i = std::int32_t{0};
       table.waiting != 0 && i < static_cast<std::int32_t>(table.seated); ++i) {
    auto& x = at(table, i);
    if (x.wants == 0)
      continue;
    refill(table, x, now);
    if (auto when = credit_at(table, x); when > now) {
      out.next_credit = std::min(out.next_credit, when);
      continue;
    }
    limit_lag(table, x);
    if (out.seat == share_table::nobody ||
        before(table, x, at(table, out.seat), now))
      out.seat = i;
  }
  return out;
}

/// Whether work is in the device that was brought together. What does not end
/// is not waited for.
bool drains(share_table& table, share_ns now) {
  auto is_left = [&](const share_seat& x) {
    return x.working != 0 && now - x.heard_at < table.rules.stalled_after;
  };
  if (table.draining != 0 && std::ranges::none_of(seated(table), is_left))
    table.draining = 0;
  return table.draining != 0;
}

/// Whether somebody of higher priority uses the device, or did lately. Who had
/// to wait for too long has a whole turn all the same.
bool is_outranked(const share_table& table, const share_seat& x, share_ns now) {
  return !is_starved(table, x, now) &&
         std::ranges::any_of(seated(table), [&](const share_seat& y) {
           auto uses = y.wants != 0 || y.working != 0 ||
                       (y.heard_at != 0 && now - y.heard_at < lately);
           return y.taken != 0 && uses && outranks(table, y, x, now);
         });
}

/// In the first round turns only tell what work takes.
share_ns full_turn(const share_table& table, const share_seat& x,
                   share_ns now) {
  if (table.rules.policy == share_policy::priority)
    return is_outranked(table, x, now) ? table.rules.quantum / part_of_quantum
                                       : table.rules.quantum;
  auto first = table.rules.joins != 0 && table.turns_since <= table.seated;
  return first ? table.rules.quantum / 2 : table.rules.quantum;
}

void set_turn(share_table& table, const share_seat& x, share_ns now) {
  auto length = full_turn(table, x, now);
  if (cap_of(table.rules.policy, x.claim) < 1)
    length = std::min(length, static_cast<share_ns>(x.credit));
  table.began = now;
  table.until = now + length;
  table.virtual_now = std::max(table.virtual_now, x.virtual_time);
}

void begin_turn(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  note_turn(table, now);
  want_nothing(table, seat);
  table.holder = table.had_turn = seat;
  set_turn(table, x, now);
  table.idle_since = now; // until it brings work
  ++x.turns;
  ++table.turns_since;
}

/// Whether the turn ends for who wants one now. One that was waited for too
/// long does not.
bool gives_way(share_table& table, const share_seat& to, share_ns now) {
  if (table.holder == share_table::nobody)
    return false;
  const auto& holder = at(table, table.holder);
  return outranks(table, to, holder, now) &&
         !is_starved(table, holder, table.began);
}

} // namespace

void want(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  if (x.taken == 0 || x.wants != 0)
    return;
  x.wants = 1;
  x.let_in = 0;
  x.wants_since = now;
  ++table.waiting;
  if (gives_way(table, x, now))
    table.until = std::min(table.until, now);
}

void want_nothing(share_table& table, std::int32_t seat) {
  if (std::exchange(at(table, seat).wants, 0) != 0)
    --table.waiting;
}

bool holds(const share_table& table, std::int32_t seat) {
  return table.holder == seat;
}

bool is_fresh(const share_table& table, std::int32_t seat) {
  return table.holder == seat && table.idle_since == table.began;
}

share_ns left_of_turn(const share_table& table, share_ns now) {
  return table.until - now;
}

namespace {

void work_again(share_seat& x, share_ns now) {
  x.heard_at = now;
  x.working = 1;
}

} // namespace

void begin_work(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  x.let_in = 0;
  if (x.working == 0)
    work_again(x, now);
  if (table.holder != seat || table.idle_since == 0)
    return;
  // Where there was work at hand its worker was late, not it.
  if (!is_fresh(table, seat) && x.more == 0 && table.waiting != 0)
    x.virtual_time += static_cast<double>(now - table.idle_since) / x.weight;
  table.idle_since = 0;
}

void set_copies(share_table& table, std::int32_t seat, bool copies) {
  at(table, seat).copies = copies ? 1 : 0;
}

void set_brought(share_table& table, std::int32_t seat, share_ns predicted) {
  at(table, seat).brought = static_cast<double>(predicted);
}

void end_work(share_table& table, std::int32_t seat, share_ns now, bool more) {
  auto& x = at(table, seat);
  x.more = more ? 1 : 0;
  x.working = 0;
  x.heard_at = now;
  if (table.holder == seat)
    table.idle_since = now;
}

share_ns charge(share_table& table, std::int32_t seat,
                const share_work& predicted, const share_work& took,
                share_ns now) {
  auto& x = at(table, seat);
  if (x.taken == 0)
    return 0;
  auto among_others = table.together != 0 || table.draining != 0;
  const auto& length = among_others ? predicted : took;
  use(table, x, static_cast<double>(length.worked), now);
  if (!among_others)
    x.virtual_time +=
        static_cast<double>(std::max<share_ns>(took.held - took.worked, 0)) /
        x.weight;
  note_done(table, seat, predicted, took, now);
  return length.worked;
}

bool renew(share_table& table, std::int32_t seat, share_ns now) {
  if (table.holder != seat)
    return false;
  auto& x = at(table, seat);
  refill(table, x, now);
  if (credit_at(table, x) > now)
    return false;
  auto next = find_next(table, now).seat;
  if (next != share_table::nobody && !outranks(table, x, at(table, next), now))
    return false;
  x.wants_since = now; // what it waited is over
  set_turn(table, x, now);
  return true;
}

bool keep(share_table& table, std::int32_t seat, share_ns now) {
  return table.rules.policy == share_policy::priority &&
         renew(table, seat, now);
}

void end_turn(share_table& table, std::int32_t seat) {
  if (table.holder == seat)
    table.holder = share_table::nobody;
}

namespace {

/// Takes back a turn that is not used, or whose work does not end. Returns when
/// it may be, at the latest. `next` has the next.
share_ns take_back(share_table& table, std::int32_t next, share_ns now) {
  // Who is idle now is so until it brings work, who is not may be soon.
  auto idle = now + idle_look;
  if (table.idle_since != 0 && gives_way(table, at(table, next), now))
    idle = now;
  else if (table.idle_since != 0)
    idle = table.idle_since + (is_fresh(table, table.holder)
                                   ? table.rules.unused_after
                                   : table.rules.idle_after);
  auto until = std::min(idle, table.began + table.rules.stalled_after);
  if (now >= until)
    end_turn(table, table.holder);
  return until;
}

/// Lets in who waits and need not.
share_outcome let_join(share_table& table, share_ns now) {
  share_outcome out;
  out.look_again = now + join_look;
  for (auto i = std::int32_t{0}; i < static_cast<std::int32_t>(table.seated);
       ++i)
    if (at(table, i).wants != 0 && may_join(table, i, now)) {
      want_nothing(table, i);
      at(table, i).let_in = 1;
      out.let_in.set(static_cast<std::size_t>(i));
    }
  return out;
}

share_outcome nobody_until(share_ns when, share_ns now) {
  return {share_table::nobody, {}, std::max(when, now)};
}

} // namespace

share_outcome arbitrate(share_table& table, share_ns now) {
  if (together(table))
    return let_join(table, now);
  auto next = find_next(table, now);
  auto look = std::min(next.next_credit, now + longest_wait);
  if (next.seat == share_table::nobody)
    return nobody_until(look, now);
  if (table.holder != share_table::nobody)
    look = std::min(look, take_back(table, next.seat, now));
  if (table.holder != share_table::nobody)
    return nobody_until(look, now);
  if (drains(table, now))
    return nobody_until(now + idle_look, now);
  if (try_concurrent(table, now)) {
    leave_turns(table, now);
    return let_join(table, now);
  }
  begin_turn(table, next.seat, now);
  return {next.seat, {}, now + idle_look};
}

} // namespace vgpu::policy
