#include "policies/compute/share_concurrent.hpp"

#include "policies/compute/share_account.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vgpu::policy {

using namespace share_account;

namespace {

/// In quanta: for so long it is measured before what it gains is looked at. Of
/// long kernels several end in that.
constexpr share_ns measured_for = 16;
/// With less than this done in a second, turns do as well: at first, and later.
constexpr double least_gain = 1.05;
constexpr double least_gain_later = 1;
/// Where the device works for less than this part of the time, nobody is in
/// anybody's way there.
constexpr double slack_below = 0.7;
/// Work that takes so much longer than alone is hindered; looked at is what a
/// session was given in so many quanta, or one that waits for it would be let
/// in as soon as that has helped.
constexpr double hindered_from = 1.06;
constexpr double remembered_long = 5;
/// Some turns tell again what work takes alone: soon after it began for the
/// first time, as not much was known then; later where the device has so much
/// more or less to do, by what is predicted, than it had at first, which may be
/// because that is wrong, but not sooner than this; and in any case after this.
constexpr share_ns first_refresh = 1'000'000'000;
constexpr double changed_by = 0.15;
constexpr share_ns soonest_refresh = 2'000'000'000;
constexpr share_ns last_refresh = 60'000'000'000;
/// Of what is predicted and what comes of it, the less is so much of the other,
/// or nothing is known yet; but after so many rounds of turns it is what it is.
constexpr double least_known = 0.8;
constexpr std::uint32_t most_rounds = 4;
/// What was tried in vain is tried again after this, and ever later.
constexpr share_ns first_patience = 1'000'000'000;
constexpr share_ns last_patience = 32'000'000'000;

/// By so much virtual time one may be ahead of another,
double lead_of(const share_table& table) {
  return quantum_of(table);
}
/// and by this part of it who waits for the other: woken sooner, it would soon
/// wait again.
constexpr double resumed_at = 0.75;
/// and so often that is what is kept for who did not use its part,
constexpr double most_saved = 1;
/// or for who had work all the while.
constexpr double most_owed = 8;

/// Whether its work takes longer than alone, and not because the host is slower
/// in bringing it: that waited for the device.
bool takes_longer(const share_seat& x) {
  return std::min(x.took - x.predicted, x.awaited) >
         (hindered_from - 1) * x.predicted;
}

/// Whether others are in the way of its work, and not its own limit: it waits
/// for one of them, or takes longer than alone. Work that does not end tells
/// nothing.
bool is_hindered(const share_table& table, const share_seat& x, share_ns now) {
  if (table.slack != 0 || x.spent != 0)
    return false;
  return x.wants != 0 || x.let_in != 0 ||
         (x.working != 0 && now - x.heard_at < table.rules.stalled_after &&
          takes_longer(x));
}

std::uint32_t taken_seats(const share_table& table) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      seated(table), [](const share_seat& x) { return x.taken != 0; }));
}

/// For a round, as each has a turn in which is seen what its work takes alone.
void turns_again(share_table& table) {
  table.draining |= table.together;
  table.virtual_now = std::max(table.virtual_now, average_of_active(table));
  table.together = 0;
  table.turns_since = 0;
  ++table.partings;
  for (auto& x : seated(table))
    x.predicted = x.took = x.awaited = x.turns_took = x.turns_held = 0;
}

/// Whether at least two had work within the last round of turns, and what that
/// takes was predicted of each.
bool several_are_known(const share_table& table, share_ns now) {
  auto round = static_cast<share_ns>(taken_seats(table) + 1) *
               std::max(table.rules.quantum, share_ns{table.lately_us} * 1000);
  auto active = 0;
  for (const auto& x : seated(table)) {
    auto lately = x.wants != 0 || x.working != 0 || now - x.heard_at <= round;
    if (x.taken == 0 || !lately)
      continue;
    ++active;
    auto differ = x.took < least_known * x.predicted ||
                  x.predicted < least_known * x.took;
    if (differ && table.turns_since < most_rounds * (taken_seats(table) + 1))
      return false;
  }
  return active > 1;
}

void measure_from(share_table& table, share_ns now) {
  table.since = now;
  table.progress = table.worked = 0;
}

/// Whether it is time to see again what work takes alone.
bool is_stale(const share_table& table, double load, share_ns now) {
  auto lasts = now - table.tried_at;
  auto changed = table.slack == 0 && std::abs(load - table.usual_load) >
                                         changed_by * table.usual_load;
  return lasts >= table.refresh_after || (changed && lasts >= soonest_refresh);
}

void look_at_gain(share_table& table, share_ns now) {
  auto measured = now - table.since;
  if (measured < measured_for * table.rules.quantum)
    return;
  auto gain = table.progress / static_cast<double>(measured);
  auto load = table.worked / static_cast<double>(measured);
  measure_from(table, now);
  auto first = table.usual_load == 0;
  if (first)
    table.usual_load = load;
  table.slack = load < slack_below ? 1 : 0;
  if (gain < (first ? least_gain : least_gain_later)) {
    turns_again(table);
    table.try_after =
        std::clamp(2 * table.try_after, first_patience, last_patience);
  } else if (is_stale(table, load, now)) {
    turns_again(table);
    table.refresh_after = last_refresh;
    table.try_after = 0;
  }
}

/// Whether all have had a turn since, and it is known what their work takes.
bool may_try(const share_table& table, share_ns now) {
  auto round = taken_seats(table) + 1;
  return table.turns_since >= round && several_are_known(table, now);
}

/// The least of those who use the device: where who comes begins.
void note_reached(share_table& table) {
  auto least = std::numeric_limits<double>::max();
  for (const auto& x : seated(table))
    if (is_active(x))
      least = std::min(least, reached_by(x));
  if (least != std::numeric_limits<double>::max())
    table.virtual_now = std::max(table.virtual_now, least);
}

/// Who had no work, or all that it could use or may, has saved little up; who
/// had some all the while is owed more, but not for ever.
void limit_saved(share_table& table, share_seat& x) {
  auto kept = is_active(x) ? most_owed : most_saved;
  x.virtual_time =
      std::max(x.virtual_time, table.virtual_now - kept * lead_of(table));
}

/// Only who is ahead of most waits.
bool waits_for_nobody(const share_table& table, const share_seat& x,
                      share_ns now) {
  auto mine = reached_by(x);
  if (mine < average_of_active(table))
    return true;
  auto lead = (x.wants != 0 ? resumed_at : 1) * lead_of(table);
  return std::ranges::none_of(seated(table), [&](const share_seat& y) {
    auto in_its_way = x.copies == 0 || y.copies != 0;
    return y.taken != 0 && in_its_way && mine > reached_by(y) + lead &&
           is_hindered(table, y, now);
  });
}

} // namespace

bool together(const share_table& table) {
  return table.together != 0;
}

bool may_join(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  auto has = has_credit(table, x, now);
  note_reached(table);
  limit_saved(table, x);
  if (!has)
    return false;
  return waits_for_nobody(table, x, now);
}

namespace {

/// How long its turns last for work to have its place for so long: who leaves
/// the device idle in between has it alone all the same.
double in_turns(const share_seat& x) {
  return x.turns_held > 0 ? std::max(x.turns_took / x.turns_held, 1.0) : 1;
}

} // namespace

void note_done(share_table& table, std::int32_t seat,
               const share_work& predicted, const share_work& took,
               share_ns now) {
  auto& x = at(table, seat);
  auto longer = static_cast<double>(std::max(predicted.held, took.held));
  auto remembered = quantum_of(table) * (together(table) ? remembered_long : 1);
  auto fresh = std::min(longer / remembered, 1.0);
  x.predicted += static_cast<double>(predicted.held) - fresh * x.predicted;
  x.took += static_cast<double>(took.held) - fresh * x.took;
  x.awaited += static_cast<double>(took.awaited) - fresh * x.awaited;
  x.heard_at = now;
  if (!together(table))
    x.turns_held += static_cast<double>(took.held);
  table.progress += static_cast<double>(predicted.held) * in_turns(x);
  table.worked += static_cast<double>(predicted.worked);
  if (together(table))
    look_at_gain(table, now);
}

bool try_concurrent(share_table& table, share_ns now) {
  auto allowed = table.rules.policy == share_policy::equal ||
                 table.rules.policy == share_policy::fixed ||
                 table.rules.policy == share_policy::guarantee;
  if (table.rules.joins == 0 || !allowed ||
      now - table.tried_at < table.try_after || !may_try(table, now))
    return false;
  table.together = 1;
  table.slack = 0;
  table.usual_load = 0;
  table.tried_at = now;
  measure_from(table, now);
  for (auto& x : seated(table))
    x.predicted = x.took = x.awaited = 0;
  return true;
}

void part(share_table& table) {
  turns_again(table);
}

void part_anew(share_table& table) {
  turns_again(table);
  table.tried_at = table.try_after = 0;
  table.refresh_after = first_refresh;
}

} // namespace vgpu::policy
