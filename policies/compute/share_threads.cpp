#include "policies/compute/share_threads.hpp"

#include "policies/compute/share_account.hpp"

#include <algorithm>
#include <limits>

namespace vgpu::policy {

using namespace share_account;

namespace {

/// In quanta of device time, of either: who is further ahead of another gives
/// way until it is ahead of nobody. Each change of who gives way costs some of
/// the processors' time, and a window is off by what sessions are ahead at its
/// ends: of 2 s, by half a point of the device for each 10 ms.
constexpr double most_ahead = 0.5;
/// In quanta of its own device time: how far one who has less to do than it may
/// do lags behind the others. It is owed no more when it has more to do.
constexpr double most_behind = 1;
/// In quanta: what one gets in one go for whom priority counts no more.
constexpr double starved_turn = 0.5;
/// Who waits longer than this without hearing anything looks again.
constexpr share_ns longest_sleep = 50'000'000;

template <class F>
void each_busy(share_table& table, F f) {
  for (auto i = table.busy._Find_first(); i < most_seats;
       i = table.busy._Find_next(i))
    f(table.seats[i]);
}

std::size_t number_of(const share_table& table, const share_seat& x) {
  return static_cast<std::size_t>(&x - table.seats.data());
}

void note_busy(share_table& table, const share_seat& x) {
  table.busy.set(number_of(table, x), x.running + x.waiting != 0);
}

/// Nobody saves up what he did not use while others could.
void limit_behind(const share_table& table, share_seat& x) {
  x.virtual_time =
      std::max(x.virtual_time,
               table.virtual_now - most_behind * quantum_of(table) / x.weight);
}

std::int64_t rank_of(const share_table& table, const share_seat& x,
                     share_ns now) {
  if (table.rules.policy != share_policy::priority)
    return 0;
  auto starved =
      x.used < x.favoured || (x.running == 0 && x.waiting != 0 &&
                              now - x.waits_since >= table.rules.starved_after);
  return starved ? std::numeric_limits<std::int64_t>::max() : x.claim.priority;
}

/// Whether `a` has had so much more than `b`, beside what each is promised.
bool is_ahead(const share_table& table, const share_seat& a,
              const share_seat& b, double lead, share_ns now) {
  auto rank_a = rank_of(table, a, now);
  auto rank_b = rank_of(table, b, now);
  if (rank_a != rank_b)
    return rank_a < rank_b;
  return (a.virtual_time - b.virtual_time) * std::max(a.weight, b.weight) >
         lead * quantum_of(table);
}

/// Its process stands still, or what it does cannot be stopped: nobody waits
/// for that for ever.
bool is_stalled(const share_table& table, const share_seat& x, share_ns now) {
  return now - x.heard_at >= table.rules.stalled_after;
}

std::uint32_t running_of(share_table& table, share_ns now) {
  auto out = table.running;
  each_busy(table, [&](share_seat& x) {
    out -= is_stalled(table, x, now) ? x.running : 0;
  });
  return out;
}

bool is_ahead_of_any(share_table& table, share_seat& x, double lead,
                     share_ns now) {
  auto out = false;
  each_busy(table, [&](share_seat& y) {
    auto there =
        y.running != 0 ? !is_stalled(table, y, now) : has_credit(table, y, now);
    out = out || (&y != &x && there && is_ahead(table, x, y, lead, now));
  });
  return out;
}

/// Brings up to date, and tells, whether its threads run only where no others
/// want to.
bool is_held(share_table& table, share_seat& x, share_ns now) {
  auto lead = x.held != 0 ? 0 : most_ahead;
  x.held = is_ahead_of_any(table, x, lead, now) ? 1 : 0;
  return x.held != 0;
}

/// Whether a thread of `x` has to go for one of `y`, which is there. By what
/// both were found to be last: this is asked of each pair.
bool yields_to(const share_table& table, const share_seat& x,
               const share_seat& y, share_ns now) {
  auto lead = x.held != 0 && y.held == 0 ? 0 : most_ahead;
  return &x != &y && is_ahead(table, x, y, lead, now);
}

/// One more of its threads runs.
void run_one(share_table& table, share_seat& x, share_ns now,
             thread_outcome& out) {
  if (rank_of(table, x, now) == std::numeric_limits<std::int64_t>::max() &&
      x.used >= x.favoured)
    x.favoured =
        x.used + static_cast<std::uint64_t>(starved_turn * quantum_of(table));
  x.heard_at = now;
  ++x.running;
  ++table.running;
  note_busy(table, x);
  table.virtual_now = std::max(table.virtual_now, x.virtual_time);
  if (running_of(table, now) <= table.rules.processors)
    return;
  // More than there are processors for: who is ahead gives way soon.
  each_busy(table, [&](share_seat& y) {
    if (y.running != 0 && yields_to(table, y, x, now))
      out.hurried.set(number_of(table, y));
  });
}

/// One less.
void stop_one(share_table& table, share_seat& x, share_ns now) {
  if (--x.running == 0)
    x.waits_since = now;
  --table.running;
  note_busy(table, x);
}

void wait_one(share_table& table, share_seat& x, share_ns now) {
  if (x.running == 0 && x.waiting == 0)
    x.waits_since = now;
  ++x.waiting;
  note_busy(table, x);
}

/// Of those that wait and have credit, whose is next.
share_seat* next_to_run(share_table& table, share_ns now) {
  share_seat* out = nullptr;
  each_busy(table, [&](share_seat& x) {
    if (x.waiting != 0 && has_credit(table, x, now) &&
        (out == nullptr || is_ahead(table, *out, x, 0, now)))
      out = &x;
  });
  return out;
}

/// Whether one of its threads must stop.
bool must_stop(share_table& table, share_seat& x, share_ns now) {
  if (!has_credit(table, x, now))
    return true;
  if (!is_held(table, x, now))
    return false;
  auto crowded = running_of(table, now) > table.rules.processors;
  auto out = false;
  each_busy(table, [&](share_seat& y) {
    // Somebody waits who should run in its place, or runs beside too many.
    auto matters = (crowded && y.running != 0 && !is_stalled(table, y, now)) ||
                   (y.waiting != 0 && has_credit(table, y, now));
    out = out || (matters && yields_to(table, x, y, now));
  });
  return out;
}

void charge_thread(share_table& table, share_seat& x, share_ns worked,
                   share_ns now) {
  x.heard_at = now;
  use(table, x,
      static_cast<double>(worked) / std::max(table.rules.processors, 1u), now);
  limit_behind(table, x);
}

} // namespace

bool begin_thread(share_table& table, std::int32_t seat, share_ns now,
                  thread_outcome& out) {
  auto& x = at(table, seat);
  limit_behind(table, x);
  auto may = has_credit(table, x, now) &&
             (running_of(table, now) < table.rules.processors ||
              !is_held(table, x, now));
  if (may)
    run_one(table, x, now, out);
  else
    wait_one(table, x, now);
  return may;
}

bool go_on(share_table& table, std::int32_t seat, share_ns worked, share_ns now,
           thread_outcome& out) {
  auto& x = at(table, seat);
  if (x.running == 0)
    return true; // its seat was taken from it
  charge_thread(table, x, worked, now);
  auto may = !must_stop(table, x, now);
  if (may) {
    table.virtual_now = std::max(table.virtual_now, x.virtual_time);
  } else {
    stop_one(table, x, now);
    wait_one(table, x, now);
    if (x.running != 0 && table.running > table.rules.processors)
      out.hurried.set(number_of(table, x)); // its next thread
  }
  let_in(table, now, out);
  return may;
}

bool is_let_in(share_table& table, std::int32_t seat, share_ns now,
               thread_outcome& out) {
  auto& x = at(table, seat);
  if (x.let_in == 0)
    let_in(table, now, out);
  if (x.let_in == 0)
    return false;
  --x.let_in;
  return true;
}

void end_thread(share_table& table, std::int32_t seat, share_ns worked,
                share_ns now, thread_outcome& out) {
  auto& x = at(table, seat);
  if (x.running == 0)
    return;
  charge_thread(table, x, worked, now);
  stop_one(table, x, now);
  let_in(table, now, out);
}

void give_up(share_table& table, std::int32_t seat, share_ns now,
             thread_outcome& out) {
  auto& x = at(table, seat);
  if (x.let_in != 0) {
    --x.let_in;
    stop_one(table, x, now);
  } else if (x.waiting != 0) {
    --x.waiting;
    note_busy(table, x);
  }
  let_in(table, now, out);
}

void let_in(share_table& table, share_ns now, thread_outcome& out) {
  while (auto* x = next_to_run(table, now)) {
    if (running_of(table, now) >= table.rules.processors &&
        is_held(table, *x, now))
      return;
    run_one(table, *x, now, out);
    --x->waiting;
    ++x->let_in;
    ++x->turns;
    out.let_in.set(number_of(table, *x));
    ++out.woken[number_of(table, *x)];
  }
}

share_ns look_again(const share_table& table, std::int32_t seat, share_ns now) {
  auto x = table.seats[static_cast<std::size_t>(seat)];
  refill(table, x, now);
  auto latest = now + longest_sleep;
  return x.spent == 0 ? latest : std::clamp(credit_at(table, x), now, latest);
}

} // namespace vgpu::policy
