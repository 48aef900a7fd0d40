#include "policies/compute/thread_engine.hpp"

#include <algorithm>
#include <limits>

namespace vgpu::policy {

namespace {

/// A session that is this many quanta of either session's device time ahead of
/// another one yields until it is ahead of no session. A smaller value makes
/// sessions yield more often, which costs time of the processors. A larger one
/// makes shares less exact: over 2 s, by half a percent of the device for each
/// 10 ms.
constexpr double most_ahead = 0.5;
/// Gives the quanta of its own device time that a session may lag behind the
/// others while it has too little work. It does not get more later.
constexpr double most_behind = 1;
/// Gives the quanta that a starved session gets at a time.
constexpr double starved_turn = 0.5;
/// A waiting thread that gets no message for this long asks again.
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

/// Limits how far a session lags behind, so that it cannot save up time that it
/// did not use.
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

/// Returns whether `a` is ahead of `b` by more than `lead` quanta, relative to
/// their weights.
bool thread_engine::is_ahead(const share_seat& a, const share_seat& b,
                             double lead, share_ns now) const {
  auto rank_a = rank_of(a, now);
  auto rank_b = rank_of(b, now);
  if (rank_a != rank_b)
    return rank_a < rank_b;
  return (a.virtual_time - b.virtual_time) * std::max(a.weight, b.weight) >
         lead * accounts_.quantum();
}

/// Returns whether a session's process stands still, or executes work that
/// cannot be stopped. Other sessions do not wait for it.
bool thread_engine::is_stalled(const share_seat& x, share_ns now) const {
  return now - x.heard_at >= table_.rules.stalled_after;
}

/// Returns the number of running threads, without those of stalled sessions.
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

/// Updates and returns whether a session's threads run only on processors that
/// no other session wants.
bool thread_engine::is_held(share_seat& x, share_ns now) const {
  auto lead = x.threads.held_ != 0 ? 0 : most_ahead;
  x.threads.held_ = is_ahead_of_any(x, lead, now) ? 1 : 0;
  return x.threads.held_ != 0;
}

/// Returns whether a thread of `x` must yield to a thread of `y`, which has
/// some to run. It uses the latest held_ of both, because updating that for
/// each pair would be slow.
bool thread_engine::yields_to(const share_seat& x, const share_seat& y,
                              share_ns now) const {
  auto lead = x.threads.held_ != 0 && y.threads.held_ == 0 ? 0 : most_ahead;
  return &x != &y && is_ahead(x, y, lead, now);
}

/// Makes one more thread of the session run.
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
  // Too many threads run, so threads of sessions that are ahead should yield.
  each_busy([&](const share_seat& y) {
    if (y.threads.running_ != 0 && yields_to(y, x, now))
      out.hurried.set(accounts_.number_of(y));
  });
}

/// Makes one thread less of the session run.
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

/// Returns the session whose thread is next, among waiting sessions with
/// credit, or null.
share_seat* thread_engine::next_to_run(share_ns now) const {
  share_seat* out = nullptr;
  each_busy([&](share_seat& x) {
    if (x.threads.waiting_ != 0 && accounts_.has_credit(x, now) &&
        (out == nullptr || is_ahead(*out, x, 0, now)))
      out = &x;
  });
  return out;
}

/// Returns whether one of the session's threads must stop.
bool thread_engine::must_stop(share_seat& x, share_ns now) const {
  if (!accounts_.has_credit(x, now))
    return true;
  if (!is_held(x, now))
    return false;
  auto crowded = running(now) > table_.rules.processors;
  auto out = false;
  each_busy([&](share_seat& y) {
    // `y` has a waiting thread, or one that runs while too many run.
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
    return true; // The seat was taken from the session.
  charge(x, worked, now);
  auto may = !must_stop(x, now);
  if (may) {
    table_.virtual_now = std::max(table_.virtual_now, x.virtual_time);
  } else {
    stop_one(x, now);
    wait_one(x, now);
    if (x.threads.running_ != 0 && state_.running_ > table_.rules.processors)
      out.hurried.set(accounts_.number_of(x)); // for its next thread
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
  auto x = accounts_.at(seat); // a copy, so that refill() changes nothing
  accounts_.refill(x, now);
  auto latest = now + longest_sleep;
  return x.spent == 0 ? latest
                      : std::clamp(accounts_.credit_at(x), now, latest);
}

} // namespace vgpu::policy
