#include "policies/compute/thread_engine.hpp"

#include <algorithm>
#include <limits>

namespace vgpu::policy {

namespace {

/// A session that is this many quanta of device time, of either session, ahead
/// of another yields until it is ahead of nobody. Each change of which session
/// yields costs some of the processors' time, and a window is off by what
/// sessions are ahead at its ends: of 2 s, by half a point of the device for
/// each 10 ms.
constexpr double most_ahead = 0.5;
/// How many quanta of its own device time a session that has less to do than it
/// may do lags behind the others. It is owed no more when it has more to do.
constexpr double most_behind = 1;
/// How many quanta a starved session gets in one go.
constexpr double starved_turn = 0.5;
/// A thread that waits longer than this without hearing anything asks again.
constexpr share_ns longest_sleep = 50'000'000;
/// Starved sessions go before all others.
constexpr auto starved_rank = std::numeric_limits<std::int64_t>::max();

} // namespace

template <class F>
void thread_engine::each_busy(F f) const {
  const auto& busy = state_.busy_;
  for (auto i = busy._Find_first(); i < most_seats; i = busy._Find_next(i))
    f(table_.seats[i]);
}

void thread_engine::note_busy(const share_seat& x) {
  state_.busy_.set(accounts_.number_of(x),
                   x.threads.running_ + x.threads.waiting_ != 0);
}

/// Nobody saves up what he did not use while others could.
void thread_engine::limit_behind(share_seat& x) const {
  x.virtual_time = std::max(x.virtual_time,
                            table_.virtual_now -
                                most_behind * accounts_.quantum() / x.weight);
}

std::int64_t thread_engine::rank_of(const share_seat& x, share_ns now) const {
  if (!accounts_.policy().ranks())
    return 0;
  const auto& mine = x.threads;
  auto starved = x.used < mine.favoured_ ||
                 (mine.running_ == 0 && mine.waiting_ != 0 &&
                  now - mine.waits_since_ >= table_.rules.starved_after);
  return starved ? starved_rank : accounts_.rank_of(x);
}

/// Whether `a` has had so much more than `b`, beside what each is promised.
bool thread_engine::is_ahead(const share_seat& a, const share_seat& b,
                             double lead, share_ns now) const {
  auto rank_a = rank_of(a, now);
  auto rank_b = rank_of(b, now);
  if (rank_a != rank_b)
    return rank_a < rank_b;
  return (a.virtual_time - b.virtual_time) * std::max(a.weight, b.weight) >
         lead * accounts_.quantum();
}

/// Whether a session's process stands still, or does what cannot be stopped:
/// nobody waits for that for ever.
bool thread_engine::is_stalled(const share_seat& x, share_ns now) const {
  return now - x.heard_at >= table_.rules.stalled_after;
}

/// How many threads run, without those that stand still.
std::uint32_t thread_engine::running(share_ns now) const {
  auto out = state_.running_;
  each_busy([&](const share_seat& x) {
    out -= is_stalled(x, now) ? x.threads.running_ : 0;
  });
  return out;
}

bool thread_engine::is_ahead_of_any(share_seat& x, double lead,
                                    share_ns now) const {
  auto out = false;
  each_busy([&](share_seat& y) {
    auto there = y.threads.running_ != 0 ? !is_stalled(y, now)
                                         : accounts_.has_credit(y, now);
    out = out || (&y != &x && there && is_ahead(x, y, lead, now));
  });
  return out;
}

/// Brings up to date, and returns, whether a session's threads run only where
/// no others want to.
bool thread_engine::is_held(share_seat& x, share_ns now) const {
  auto lead = x.threads.held_ != 0 ? 0 : most_ahead;
  x.threads.held_ = is_ahead_of_any(x, lead, now) ? 1 : 0;
  return x.threads.held_ != 0;
}

/// Whether a thread of `x` has to go for one of `y`, which is there. By what
/// both were found to be last: this is asked of each pair.
bool thread_engine::yields_to(const share_seat& x, const share_seat& y,
                              share_ns now) const {
  auto lead = x.threads.held_ != 0 && y.threads.held_ == 0 ? 0 : most_ahead;
  return &x != &y && is_ahead(x, y, lead, now);
}

/// One more thread of the session runs.
void thread_engine::run_one(share_seat& x, share_ns now, thread_outcome& out) {
  auto& mine = x.threads;
  if (rank_of(x, now) == starved_rank && x.used >= mine.favoured_)
    mine.favoured_ =
        x.used + static_cast<std::uint64_t>(starved_turn * accounts_.quantum());
  x.heard_at = now;
  ++mine.running_;
  ++state_.running_;
  note_busy(x);
  table_.virtual_now = std::max(table_.virtual_now, x.virtual_time);
  if (running(now) <= table_.rules.processors)
    return;
  // More than there are processors for: sessions that are ahead yield soon.
  each_busy([&](const share_seat& y) {
    if (y.threads.running_ != 0 && yields_to(y, x, now))
      out.hurried.set(accounts_.number_of(y));
  });
}

/// One thread less of the session runs.
void thread_engine::stop_one(share_seat& x, share_ns now) {
  if (--x.threads.running_ == 0)
    x.threads.waits_since_ = now;
  --state_.running_;
  note_busy(x);
}

void thread_engine::wait_one(share_seat& x, share_ns now) {
  if (x.threads.running_ == 0 && x.threads.waiting_ == 0)
    x.threads.waits_since_ = now;
  ++x.threads.waiting_;
  note_busy(x);
}

/// The session whose thread is next, of those that wait and have credit.
share_seat* thread_engine::next_to_run(share_ns now) const {
  share_seat* out = nullptr;
  each_busy([&](share_seat& x) {
    if (x.threads.waiting_ != 0 && accounts_.has_credit(x, now) &&
        (out == nullptr || is_ahead(*out, x, 0, now)))
      out = &x;
  });
  return out;
}

/// Whether one of the session's threads must stop.
bool thread_engine::must_stop(share_seat& x, share_ns now) const {
  if (!accounts_.has_credit(x, now))
    return true;
  if (!is_held(x, now))
    return false;
  auto crowded = running(now) > table_.rules.processors;
  auto out = false;
  each_busy([&](share_seat& y) {
    // Somebody waits who should run in its place, or runs beside too many.
    auto matters =
        (crowded && y.threads.running_ != 0 && !is_stalled(y, now)) ||
        (y.threads.waiting_ != 0 && accounts_.has_credit(y, now));
    out = out || (matters && yields_to(x, y, now));
  });
  return out;
}

void thread_engine::charge(share_seat& x, share_ns worked, share_ns now) {
  x.heard_at = now;
  accounts_.use(
      x, static_cast<double>(worked) / std::max(table_.rules.processors, 1u),
      now);
  limit_behind(x);
}

bool thread_engine::begin(std::int32_t seat, share_ns now,
                          thread_outcome& out) {
  auto& x = accounts_.at(seat);
  limit_behind(x);
  auto may = accounts_.has_credit(x, now) &&
             (running(now) < table_.rules.processors || !is_held(x, now));
  if (may)
    run_one(x, now, out);
  else
    wait_one(x, now);
  return may;
}

bool thread_engine::go_on(std::int32_t seat, share_ns worked, share_ns now,
                          thread_outcome& out) {
  auto& x = accounts_.at(seat);
  if (x.threads.running_ == 0)
    return true; // its seat was taken from it
  charge(x, worked, now);
  auto may = !must_stop(x, now);
  if (may) {
    table_.virtual_now = std::max(table_.virtual_now, x.virtual_time);
  } else {
    stop_one(x, now);
    wait_one(x, now);
    if (x.threads.running_ != 0 && state_.running_ > table_.rules.processors)
      out.hurried.set(accounts_.number_of(x)); // its next thread
  }
  let_in(now, out);
  return may;
}

bool thread_engine::is_let_in(std::int32_t seat, share_ns now,
                              thread_outcome& out) {
  auto& x = accounts_.at(seat);
  if (x.let_in == 0)
    let_in(now, out);
  if (x.let_in == 0)
    return false;
  --x.let_in;
  return true;
}

void thread_engine::end(std::int32_t seat, share_ns worked, share_ns now,
                        thread_outcome& out) {
  auto& x = accounts_.at(seat);
  if (x.threads.running_ == 0)
    return;
  charge(x, worked, now);
  stop_one(x, now);
  let_in(now, out);
}

void thread_engine::give_up(std::int32_t seat, share_ns now,
                            thread_outcome& out) {
  auto& x = accounts_.at(seat);
  if (x.let_in != 0) {
    --x.let_in;
    stop_one(x, now);
  } else if (x.threads.waiting_ != 0) {
    --x.threads.waiting_;
    note_busy(x);
  }
  let_in(now, out);
}

void thread_engine::leave(std::int32_t seat) {
  state_.running_ -= accounts_.at(seat).threads.running_;
  state_.busy_.reset(static_cast<std::size_t>(seat));
}

void thread_engine::let_in(share_ns now, thread_outcome& out) {
  while (auto* x = next_to_run(now)) {
    if (running(now) >= table_.rules.processors && is_held(*x, now))
      return;
    run_one(*x, now, out);
    --x->threads.waiting_;
    ++x->let_in;
    ++x->turns;
    out.let_in.set(accounts_.number_of(*x));
    ++out.woken[accounts_.number_of(*x)];
  }
}

share_ns thread_engine::look_again(std::int32_t seat, share_ns now) const {
  auto x = accounts_.at(seat); // a copy: only asked
  accounts_.refill(x, now);
  auto latest = now + longest_sleep;
  return x.spent == 0 ? latest
                      : std::clamp(accounts_.credit_at(x), now, latest);
}

} // namespace vgpu::policy
