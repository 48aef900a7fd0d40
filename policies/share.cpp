#include "policies/share.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

namespace vgpu::policy {

namespace {

/// What is left to those who were promised nothing, at least, in all.
constexpr double least_rest = 0.05;
/// Who waits longer than this without hearing anything looks again.
constexpr share_ns longest_wait = 50'000'000;
/// So often somebody looks whether the holder has fallen idle.
constexpr share_ns idle_look = 10'000'000;
/// In quanta: how much credit is kept for later.
constexpr double most_credit = 2;
/// In quanta: with so much credit a turn is worth beginning.
constexpr double enough_credit = 0.5;
/// In turns: how far one who had no work may lag behind the others.
constexpr double most_lag = 2;
/// In quanta: a turn that lasted longer counts as one of this length there.
constexpr share_ns longest_turn = 10;

double quantum_of(const share_table& table) {
  return static_cast<double>(table.rules.quantum);
}

share_seat& at(share_table& table, std::int32_t seat) {
  return table.seats[static_cast<std::size_t>(seat)];
}

/// The part of the device's time that it may not exceed.
double cap_of(share_policy policy, const share_claim& claim) {
  if (policy == share_policy::best_effort)
    return 1;
  if (policy == share_policy::fixed)
    return std::min(claim.share, claim.limit);
  return claim.limit;
}
double cap_of(const share_rules& rules, const share_claim& claim) {
  return cap_of(rules.policy, claim);
}

/// Who was promised a part gets it; the others share what is left. What is
/// promised beyond the whole is scaled down.
class weighing {
public:
  explicit weighing(share_policy policy)
      : equal_(policy == share_policy::equal) {}

  void add(const share_claim& x) {
    (promises(x) ? promised_ : others_) += promises(x) ? x.share : 1;
  }
  /// Of one that was added, when all have been.
  double weight_of(const share_claim& x) const {
    auto rest = others_ == 0 ? 0 : std::max(1 - promised_, least_rest);
    auto scale = promised_ + rest > 1 ? 1 / (promised_ + rest) : 1;
    return scale * (promises(x) ? x.share : rest / others_);
  }

private:
  bool promises(const share_claim& x) const { return x.share < 1 && !equal_; }

  bool equal_;
  double promised_ = 0;
  double others_ = 0;
};

/// Brings the credit up to date.
void refill(const share_table& table, share_seat& x, share_ns now) {
  auto cap = cap_of(table.rules, x.claim);
  auto gained =
      cap * static_cast<double>(std::max<share_ns>(now - x.credited_at, 0));
  x.credit = std::min(x.credit + gained, most_credit * quantum_of(table));
  x.credited_at = now;
}

/// When the seat will have credit for a turn; now or earlier: it has.
share_ns credit_at(const share_table& table, const share_seat& x) {
  auto cap = cap_of(table.rules, x.claim);
  if (cap >= 1)
    return x.credited_at;
  auto missing = enough_credit * quantum_of(table) - x.credit;
  if (missing <= 0)
    return x.credited_at;
  return x.credited_at + static_cast<share_ns>(missing / cap) + 1;
}

void reweigh(share_table& table) {
  weighing all{table.rules.policy};
  for (auto& x : table.seats)
    if (x.taken != 0)
      all.add(x.claim);
  for (auto& x : table.seats)
    if (x.taken != 0)
      x.weight = all.weight_of(x.claim);
}

/// Turns last longer than they should where work cannot be stopped: long
/// kernels, or a device whose threads a busy host lets wait.
share_ns turn_lately(const share_table& table) {
  return std::max(table.rules.quantum, share_ns{table.lately_us} * 1000);
}

void note_turn(share_table& table, share_ns now) {
  if (table.began == 0) // the first
    return;
  auto last = std::clamp<share_ns>(now - table.began, 0,
                                   longest_turn * table.rules.quantum);
  auto faded = share_ns{table.lately_us} * 1000 / 8 * 7;
  table.lately_us = static_cast<std::uint32_t>(std::max(last, faded) / 1000);
}

/// Nobody saves up what he did not ask for while others used it. But who only
/// missed a turn, having no work at hand just then, is owed all of it.
void limit_lag(const share_table& table, share_seat& x) {
  auto floor = table.virtual_now -
               most_lag * static_cast<double>(turn_lately(table)) / x.weight;
  x.virtual_time = std::max(x.virtual_time, floor);
}

/// Whether `a` goes before `b`.
bool before(const share_table& table, const share_seat& a, const share_seat& b,
            share_ns now) {
  if (table.rules.policy == share_policy::priority) {
    auto starved = [&](auto& x) {
      return now - x.wants_since >= table.rules.starved_after;
    };
    if (starved(a) != starved(b))
      return starved(a);
    if (starved(a))
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

/// Who is next, `but` aside; or when somebody will be.
candidate find_next(share_table& table, share_ns now,
                    std::int32_t but = share_table::nobody) {
  candidate out;
  for (auto i = std::int32_t{0}; i < std::int32_t{most_seats}; ++i) {
    auto& x = at(table, i);
    if (x.taken == 0 || x.wants == 0 || i == but)
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

share_ns turn_length(const share_table& table, const share_seat& x) {
  if (cap_of(table.rules, x.claim) >= 1)
    return table.rules.quantum;
  return std::min(table.rules.quantum, static_cast<share_ns>(x.credit));
}

void begin_turn(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  note_turn(table, now);
  table.holder = seat;
  table.began = now;
  table.until = now + turn_length(table, x);
  table.idle_since = now; // until it brings work
  table.virtual_now = std::max(table.virtual_now, x.virtual_time);
  x.wants = 0;
  ++x.turns;
}

} // namespace

std::optional<share_policy> parse_share_policy(std::string_view name) {
  for (auto i = 0u; i < share_policy_names.size(); ++i)
    if (share_policy_names[i] == name)
      return static_cast<share_policy>(i);
  return {};
}

// -- seats --------------------------------------------------------------------

std::int32_t sit(share_table& table, const share_claim& claim, share_ns now) {
  for (auto i = std::int32_t{0}; i < std::int32_t{most_seats}; ++i) {
    auto& x = at(table, i);
    if (x.taken != 0)
      continue;
    x = {};
    x.taken = 1;
    x.claim = claim;
    x.virtual_time = table.virtual_now;
    x.credit = most_credit * quantum_of(table);
    x.credited_at = now;
    reweigh(table);
    return i;
  }
  return share_table::nobody;
}

void stand(share_table& table, std::int32_t seat) {
  end_turn(table, seat);
  at(table, seat) = {};
  reweigh(table);
}

void set_claim(share_table& table, std::int32_t seat, const share_claim& claim,
               share_ns now) {
  auto& x = at(table, seat);
  refill(table, x, now);
  x.claim = claim;
  reweigh(table);
}

void set_rules(share_table& table, const share_rules& rules, share_ns now) {
  for (auto& x : table.seats)
    refill(table, x, now);
  table.rules = rules;
  reweigh(table);
  // What was owed under other rules is forgotten.
  for (auto& x : table.seats) {
    x.virtual_time = table.virtual_now;
    x.credit = std::clamp(x.credit, 0.0, most_credit * quantum_of(table));
  }
}

bool contested(const share_table& table) {
  if (table.rules.policy == share_policy::best_effort)
    return false;
  auto taken = 0;
  auto capped = false;
  for (auto& x : table.seats)
    if (x.taken != 0) {
      ++taken;
      capped = capped || cap_of(table.rules, x.claim) < 1;
    }
  return taken > 1 || capped;
}

// -- turns --------------------------------------------------------------------

void want(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  if (x.taken == 0 || x.wants != 0)
    return;
  x.wants = 1;
  x.wants_since = now;
}

void want_nothing(share_table& table, std::int32_t seat) {
  at(table, seat).wants = 0;
}

void begin_work(share_table& table, std::int32_t seat) {
  if (table.holder == seat)
    table.idle_since = 0;
}

void end_work(share_table& table, std::int32_t seat, share_ns now) {
  if (table.holder == seat)
    table.idle_since = now;
}

void charge(share_table& table, std::int32_t seat, share_ns used,
            share_ns now) {
  auto& x = at(table, seat);
  if (x.taken == 0)
    return;
  refill(table, x, now);
  x.used += static_cast<std::uint64_t>(used);
  x.credit -= static_cast<double>(used);
  x.virtual_time += static_cast<double>(used) / x.weight;
}

bool renew(share_table& table, std::int32_t seat, share_ns now) {
  if (table.holder != seat)
    return false;
  auto& x = at(table, seat);
  refill(table, x, now);
  if (credit_at(table, x) > now ||
      find_next(table, now, seat).seat != share_table::nobody)
    return false;
  table.until = now + turn_length(table, x);
  table.began = now;
  table.virtual_now = std::max(table.virtual_now, x.virtual_time);
  return true;
}

void end_turn(share_table& table, std::int32_t seat) {
  if (table.holder == seat)
    table.holder = share_table::nobody;
}

share_outcome arbitrate(share_table& table, share_ns now) {
  auto next = find_next(table, now, table.holder);
  auto none = next.seat == share_table::nobody;
  auto look = std::min(next.next_credit, now + longest_wait);
  if (table.holder != share_table::nobody) {
    auto stalled = table.began + table.rules.stalled_after;
    auto fresh = table.idle_since == table.began;
    auto idle = table.idle_since +
                (fresh ? table.rules.unused_after : table.rules.idle_after);
    auto unused = table.idle_since != 0 && now >= idle;
    if (none || (!unused && now < stalled)) {
      // Who is idle now is so until it brings work, who is not may be soon.
      auto until = table.idle_since != 0 ? idle : now + idle_look;
      return {share_table::nobody,
              std::max(none ? look : std::min({look, until, stalled}), now)};
    }
    end_turn(table, table.holder);
  }
  if (none)
    return {share_table::nobody, std::max(look, now)};
  begin_turn(table, next.seat, now);
  return {next.seat, now + idle_look};
}

// -- in the long run ----------------------------------------------------------

namespace {

/// One of those who share what is left of a device.
struct grantee {
  double weight = 0;
  double most = 0; // what it can use
  double* granted = nullptr;
};

/// Gives each its part by weight, and what one cannot use to the others;
/// returns what nobody could.
double fill(std::vector<grantee> all, double left) {
  while (!all.empty() && left > 0) {
    auto weights = 0.0;
    for (const auto& x : all)
      weights += x.weight;
    auto level = left / weights;
    auto sated = std::partition(all.begin(), all.end(), [&](const auto& x) {
      return x.most > x.weight * level;
    });
    if (sated == all.end()) {
      for (const auto& x : all)
        *x.granted = x.weight * level;
      return 0;
    }
    for (auto i = sated; i != all.end(); ++i) {
      *i->granted = i->most;
      left -= i->most;
    }
    all.erase(sated, all.end());
  }
  return std::max(left, 0.0);
}

} // namespace

std::vector<double> grants_of(share_policy policy,
                              std::span<const share_user> users) {
  // Who asks for no turns gets what the device makes of it: as much as others.
  weighing weights{policy == share_policy::best_effort ? share_policy::equal
                                                       : policy};
  for (const auto& x : users)
    weights.add(x.claim);
  std::vector<double> out(users.size(), 0.0);
  std::map<std::int32_t, std::vector<grantee>, std::greater<>> levels;
  for (std::size_t i = 0; i < users.size(); ++i) {
    const auto& [claim, wants] = users[i];
    if (wants > 0)
      levels[policy == share_policy::priority ? claim.priority : 0].push_back(
          {weights.weight_of(claim), std::min(wants, cap_of(policy, claim)),
           &out[i]});
  }
  auto left = 1.0;
  for (auto& [priority, all] : levels)
    left = fill(std::move(all), left);
  return out;
}

} // namespace vgpu::policy
