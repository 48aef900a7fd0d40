#include "policies/compute/concurrent_engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vgpu::policy {

namespace {

/// Gives the length of a measurement of the gain, in quanta. Several long
/// kernels end within it.
constexpr share_ns measured_for = 16;
/// Gives the smallest gain of running concurrently, in seconds of work per
/// second. With a smaller gain, turns are as good.
constexpr double least_gain = 1.05;
/// Gives the smallest gain in the measurements after the first.
constexpr double least_gain_later = 1;
/// A device that works for less than this part of the time has room for all, so
/// no session hinders another one.
constexpr double slack_below = 0.7;
/// Work is hindered if it takes this many times as long as alone.
constexpr double hindered_from = 1.06;
/// Gives the quanta of a session's work over which takes_longer() averages.
/// With a shorter average, a session that waits for a hindered one would be
/// admitted as soon as its waiting helps.
constexpr double remembered_long = 5;
/// After sessions first ran concurrently for this long, a round of turns
/// measures again what work takes alone, because the first measurement is
/// rough.
constexpr share_ns first_refresh = 1'000'000'000;
/// A round of turns measures again when the device's predicted load has changed
/// by this part, because a prediction may be wrong.
constexpr double changed_by = 0.15;
/// Gives the shortest time before a measurement because of a changed load.
constexpr share_ns soonest_refresh = 2'000'000'000;
/// Gives the longest time between two measurements.
constexpr share_ns last_refresh = 60'000'000'000;
/// Work is known when the smaller of its predicted and its measured time is at
/// least this part of the larger.
constexpr double least_known = 0.8;
/// After this many rounds of turns, further turns do not improve predictions.
constexpr std::uint32_t most_rounds = 4;
/// Gives the delay before the next trial after a trial without gain. It doubles
/// each time.
constexpr share_ns first_patience = 1'000'000'000;
constexpr share_ns last_patience = 32'000'000'000;

/// A session that waits for another one is admitted again when its lead has
/// shrunk to this part of a quantum. If it were admitted earlier, it would
/// start and stop more often.
constexpr double resumed_at = 0.75;
/// Gives the quanta that a session without work may lag behind.
constexpr double most_saved = 1;
/// Gives the quanta that a session with work may lag behind.
constexpr double most_owed = 8;

} // namespace

/// Returns whether a session's work takes longer than alone because of the
/// device. Time that the host takes to bring the work does not count.
bool concurrent_engine::takes_longer(const share_seat& x) {
  const auto& mine = x.concurrent;
  return std::min(mine.took_ - mine.predicted_, mine.awaited_) >
         (hindered_from - 1) * mine.predicted_;
}

/// Returns whether other sessions, and not its own limit, hinder a session: it
/// waits for one of them, or its work takes longer than alone. Work that does
/// not end does not count.
bool concurrent_engine::is_hindered(const share_seat& x, share_ns now) const {
  if (state_.slack_ != 0 || x.spent != 0)
    return false;
  return x.wants != 0 || x.let_in != 0 ||
         (x.working != 0 && now - x.heard_at < table_.rules.stalled_after &&
          takes_longer(x));
}

std::uint32_t concurrent_engine::taken_seats() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      accounts_.seated(), [](const share_seat& x) { return x.taken != 0; }));
}

/// Returns whether at least two sessions had work within the last round of
/// turns, and the predictions for all of these are good.
bool concurrent_engine::several_are_known(share_ns now) const {
  auto round = static_cast<share_ns>(taken_seats() + 1) *
               std::max(table_.rules.quantum, table_.turns.lately());
  auto active = 0;
  for (const auto& x : accounts_.seated()) {
    auto lately = x.wants != 0 || x.working != 0 || now - x.heard_at <= round;
    if (x.taken == 0 || !lately)
      continue;
    ++active;
    const auto& mine = x.concurrent;
    auto differ = mine.took_ < least_known * mine.predicted_ ||
                  mine.predicted_ < least_known * mine.took_;
    if (differ && state_.turns_since_ < most_rounds * (taken_seats() + 1))
      return false;
  }
  return active > 1;
}

/// Returns whether all sessions had a turn since the last return to turns, and
/// the time that their work takes is known.
bool concurrent_engine::may_try(share_ns now) const {
  auto round = taken_seats() + 1;
  return state_.turns_since_ >= round && several_are_known(now);
}

void concurrent_engine::measure_from(share_ns now) {
  state_.since_ = now;
  state_.progress_ = state_.worked_ = 0;
}

/// Returns whether it is time to measure again what work takes alone.
bool concurrent_engine::is_stale(double load, share_ns now) const {
  auto lasts = now - state_.tried_at_;
  auto changed = state_.slack_ == 0 && std::abs(load - state_.usual_load_) >
                                           changed_by * state_.usual_load_;
  return lasts >= state_.refresh_after_ ||
         (changed && lasts >= soonest_refresh);
}

void concurrent_engine::measure_gain(share_ns now) {
  auto measured = now - state_.since_;
  if (measured < measured_for * table_.rules.quantum)
    return;
  auto gain = state_.progress_ / static_cast<double>(measured);
  auto load = state_.worked_ / static_cast<double>(measured);
  measure_from(now);
  auto first = state_.usual_load_ == 0;
  if (first)
    state_.usual_load_ = load;
  state_.slack_ = load < slack_below ? 1 : 0;
  if (gain < (first ? least_gain : least_gain_later)) {
    part();
    state_.try_after_ =
        std::clamp(2 * state_.try_after_, first_patience, last_patience);
  } else if (is_stale(load, now)) {
    part();
    state_.refresh_after_ = last_refresh;
    state_.try_after_ = 0;
  }
}

/// Makes new sessions begin at the least virtual time of the active ones.
void concurrent_engine::note_reached() {
  auto least = std::numeric_limits<double>::max();
  for (const auto& x : accounts_.seated())
    if (share_accounts::is_active(x))
      least = std::min(least, share_accounts::reached_by(x));
  if (least != std::numeric_limits<double>::max())
    table_.virtual_now = std::max(table_.virtual_now, least);
}

/// Limits how far a session lags behind. A session that always had work may lag
/// further than one without.
void concurrent_engine::limit_saved(share_seat& x) {
  auto kept = share_accounts::is_active(x) ? most_owed : most_saved;
  x.virtual_time =
      std::max(x.virtual_time, table_.virtual_now - kept * accounts_.quantum());
}

/// Returns whether a session need not wait for another one. A session below the
/// average virtual time never waits.
bool concurrent_engine::waits_for_nobody(const share_seat& x,
                                         share_ns now) const {
  auto mine = share_accounts::reached_by(x);
  if (mine < accounts_.average_of_active())
    return true;
  auto lead = (x.wants != 0 ? resumed_at : 1) * accounts_.quantum();
  return std::ranges::none_of(accounts_.seated(), [&](const share_seat& y) {
    auto in_its_way = x.concurrent.copies_ == 0 || y.concurrent.copies_ != 0;
    return y.taken != 0 && in_its_way &&
           mine > share_accounts::reached_by(y) + lead && is_hindered(y, now);
  });
}

/// Returns how much longer a session's turns are than the time for which its
/// work had a place in the device. A session that leaves the device idle during
/// its turn still has the device to itself.
double concurrent_engine::in_turns(const share_seat& x) {
  const auto& mine = x.concurrent;
  return mine.turns_held_ > 0
             ? std::max(mine.turns_took_ / mine.turns_held_, 1.0)
             : 1;
}

bool concurrent_engine::may_join(std::int32_t seat, share_ns now) {
  auto& x = accounts_.at(seat);
  auto has = accounts_.has_credit(x, now);
  note_reached();
  limit_saved(x);
  return has && waits_for_nobody(x, now);
}

void concurrent_engine::set_copies(std::int32_t seat, bool copies) {
  accounts_.at(seat).concurrent.copies_ = copies ? 1 : 0;
}

void concurrent_engine::note_done(std::int32_t seat,
                                  const share_work& predicted,
                                  const share_work& took, share_ns now) {
  auto& x = accounts_.at(seat);
  auto& mine = x.concurrent;
  auto longer = static_cast<double>(std::max(predicted.held, took.held));
  auto remembered =
      accounts_.quantum() * (state_.is_on() ? remembered_long : 1);
  auto fresh = std::min(longer / remembered, 1.0);
  mine.predicted_ +=
      static_cast<double>(predicted.held) - fresh * mine.predicted_;
  mine.took_ += static_cast<double>(took.held) - fresh * mine.took_;
  mine.awaited_ += static_cast<double>(took.awaited) - fresh * mine.awaited_;
  x.heard_at = now;
  if (!state_.is_on())
    mine.turns_held_ += static_cast<double>(took.held);
  state_.progress_ += static_cast<double>(predicted.held) * in_turns(x);
  state_.worked_ += static_cast<double>(predicted.worked);
  if (state_.is_on())
    measure_gain(now);
}

void concurrent_engine::note_turn_took(std::int32_t seat, share_ns took) {
  accounts_.at(seat).concurrent.turns_took_ += static_cast<double>(took);
}

bool concurrent_engine::try_begin(share_ns now) {
  if (table_.rules.joins == 0 || !accounts_.policy().concurrent ||
      now - state_.tried_at_ < state_.try_after_ || !may_try(now))
    return false;
  begin(now);
  return true;
}

void concurrent_engine::begin(share_ns now) {
  state_.on_ = 1;
  state_.slack_ = 0;
  state_.usual_load_ = 0;
  state_.tried_at_ = now;
  measure_from(now);
  for (auto& x : accounts_.seated())
    x.concurrent.predicted_ = x.concurrent.took_ = x.concurrent.awaited_ = 0;
}

/// Returns to turns for at least one round, in which each session has a turn
/// that measures what its work takes alone.
void concurrent_engine::part() {
  state_.draining_ |= state_.on_;
  table_.virtual_now =
      std::max(table_.virtual_now, accounts_.average_of_active());
  state_.on_ = 0;
  state_.turns_since_ = 0;
  ++state_.partings_;
  for (auto& x : accounts_.seated()) {
    auto& mine = x.concurrent;
    mine.predicted_ = mine.took_ = mine.awaited_ = 0;
    mine.turns_took_ = mine.turns_held_ = 0;
  }
}

void concurrent_engine::part_anew() {
  part();
  state_.tried_at_ = state_.try_after_ = 0;
  state_.refresh_after_ = first_refresh;
}

bool concurrent_engine::drains(share_ns now) {
  auto is_left = [&](const share_seat& x) {
    return x.working != 0 && now - x.heard_at < table_.rules.stalled_after;
  };
  if (state_.draining_ != 0 &&
      std::ranges::none_of(accounts_.seated(), is_left))
    state_.draining_ = 0;
  return state_.draining_ != 0;
}

} // namespace vgpu::policy
