#include "policies/share_together.hpp"

#include "policies/share_account.hpp"

#include <algorithm>

namespace vgpu::policy {

using namespace share_account;

namespace {

/// In quanta: for so long it is measured before what it gains is looked at.
constexpr share_ns measured_for = 8;
/// With less than this done in a second, turns do as well.
constexpr double least_gain = 1.05;
/// Work that takes so much longer than alone is hindered; looked at is what a
/// session was given in so many quanta, or one that waits for it would be let
/// in as soon as that has helped.
constexpr double hindered_from = 1.1;
constexpr double remembered_long = 5;
/// How long it goes on before some turns tell again what work takes alone; each
/// time for longer, as in turns less gets done.
constexpr share_ns first_refresh = 5'000'000'000;
constexpr share_ns last_refresh = 20'000'000'000;
/// Of what is foretold and what comes of it, the less is so much of the other,
/// or nothing is known yet.
constexpr double least_known = 0.8;
/// What was tried in vain is tried again after this, and ever later.
constexpr share_ns first_patience = 1'000'000'000;
constexpr share_ns last_patience = 32'000'000'000;

/// By so much virtual time one may be ahead of another,
double lead_of(const share_table& table) {
  return quantum_of(table);
}
/// and so often that is what is kept for who did not use its part.
constexpr double most_saved = 2;

/// Whether others are in the way of its work. Work that does not end tells
/// nothing.
bool is_hindered(const share_table& table, const share_seat& x, share_ns now) {
  return x.working != 0 && now - x.heard_at < table.rules.stalled_after &&
         x.took > hindered_from * x.foretold;
}

std::uint32_t taken_seats(const share_table& table) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      seated(table), [](const share_seat& x) { return x.taken != 0; }));
}

/// For a round, as each has a turn in which is seen what its work takes alone.
void turns_again(share_table& table) {
  table.draining |= table.together;
  table.together = 0;
  table.turns_first = taken_seats(table) + 1;
  for (auto& x : seated(table))
    x.foretold = x.took = 0;
}

/// Whether at least two had work within the last round of turns, and what that
/// takes was foretold of each.
bool several_are_known(const share_table& table, share_ns now) {
  auto round = static_cast<share_ns>(taken_seats(table) + 1) *
               std::max(table.rules.quantum, share_ns{table.lately_us} * 1000);
  auto active = 0;
  for (const auto& x : seated(table)) {
    auto lately = x.wants != 0 || x.working != 0 || now - x.heard_at <= round;
    if (x.taken == 0 || !lately)
      continue;
    ++active;
    if (x.took < least_known * x.foretold || x.foretold < least_known * x.took)
      return false;
  }
  return active > 1;
}

void measure_from(share_table& table, share_ns now) {
  table.since = now;
  table.progress = 0;
}

void look_at_gain(share_table& table, share_ns now) {
  auto measured = now - table.since;
  if (measured < measured_for * table.rules.quantum)
    return;
  auto gain = table.progress / static_cast<double>(measured);
  measure_from(table, now);
  if (gain < least_gain) {
    turns_again(table);
    table.try_after =
        std::clamp(2 * table.try_after, first_patience, last_patience);
  } else if (now - table.tried_at >= table.refresh_after) {
    turns_again(table);
    table.refresh_after = std::min(2 * table.refresh_after, last_refresh);
    table.try_after = 0;
  }
}

} // namespace

bool together(const share_table& table) {
  return table.together != 0;
}

bool may_join(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  if (!has_credit(table, x, now))
    return false;
  // Who had no work, or all that it could use, has saved little up.
  x.virtual_time =
      std::max(x.virtual_time, table.virtual_now - most_saved * lead_of(table));
  auto waits_for = [&](const share_seat& y) {
    return y.taken != 0 && x.virtual_time > y.virtual_time + lead_of(table) &&
           is_hindered(table, y, now);
  };
  if (std::ranges::any_of(seated(table), waits_for))
    return false;
  table.virtual_now = std::max(table.virtual_now, x.virtual_time);
  return true;
}

void note_done(share_table& table, std::int32_t seat, share_ns foretold,
               share_ns took, share_ns now) {
  auto& x = at(table, seat);
  auto longer = static_cast<double>(std::max(foretold, took));
  auto remembered = quantum_of(table) * (together(table) ? remembered_long : 1);
  auto fresh = std::min(longer / remembered, 1.0);
  x.foretold += static_cast<double>(foretold) - fresh * x.foretold;
  x.took += static_cast<double>(took) - fresh * x.took;
  x.heard_at = now;
  table.progress += static_cast<double>(foretold);
  if (together(table))
    look_at_gain(table, now);
}

bool try_together(share_table& table, share_ns now) {
  auto allowed = table.rules.policy == share_policy::equal ||
                 table.rules.policy == share_policy::fixed ||
                 table.rules.policy == share_policy::guarantee;
  if (table.rules.joins == 0 || !allowed || table.turns_first != 0 ||
      now - table.tried_at < table.try_after || !several_are_known(table, now))
    return false;
  table.together = 1;
  table.tried_at = now;
  measure_from(table, now);
  for (auto& x : seated(table))
    x.foretold = x.took = 0;
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
