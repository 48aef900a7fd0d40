#include "policies/share.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace vgpu::policy {

namespace {

/// What is left to those who were promised nothing, at least, in all.
constexpr double least_rest = 0.05;
/// Who waits longer than this without hearing anything looks again.
constexpr share_ns longest_wait = 50'000'000;
/// So often somebody looks whether the holder has fallen idle.
constexpr share_ns idle_look = 10'000'000;
/// In quanta: how much credit is kept for later. Where others have their turns
/// first it is needed; elsewhere it would only let who was idle exceed its
/// limit for a while.
constexpr double most_credit = 2;
constexpr double most_shared_credit = 1;
/// In quanta: with so much credit a turn is worth beginning.
constexpr double enough_credit = 0.5;
/// In turns: how far one who had no work may lag behind the others.
constexpr double most_lag = 2;
/// In quanta: a turn that lasted longer counts as one of this length there.
constexpr share_ns longest_turn = 10;

// Where several have turns at a time:
/// In quanta of its own device time: who is further ahead of another waits.
constexpr double most_lead = 0.25;
/// In quanta: who waited for so long for others who are behind waits no more.
/// Had they the work, they would have caught up.
constexpr share_ns most_wait = 25;
/// In quanta: how long a turn is.
constexpr double shared_turn = 0.5;
/// What is known of a seat's demand is as old as this, mostly.
constexpr double demand_memory = 50'000'000;
/// Who seems to fill so much of the device less than all of it fills it:
/// threads that wake up, and a kernel's last blocks.
constexpr double leeway = 1.25;
/// Nobody is taken to need less.
constexpr double least_demand = 0.02;
/// Of what it can use, who can use little is to get so much at least before
/// others wait for it: work that comes and goes is slowed by whoever works
/// beside it, and all of it can only be had from a device that is idle else.
constexpr double least_served = 0.4;
/// So often parts are brought up to date.
constexpr share_ns part_again = 5'000'000;

double quantum_of(const share_table& table) {
  return static_cast<double>(table.rules.quantum);
}

share_seat& at(share_table& table, std::int32_t seat) {
  return table.seats[static_cast<std::size_t>(seat)];
}
const share_seat& at(const share_table& table, std::int32_t seat) {
  return table.seats[static_cast<std::size_t>(seat)];
}

bool is_shared(const share_table& table) {
  return table.rules.at_once > 1;
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

double most_kept(const share_table& table) {
  return (is_shared(table) ? most_shared_credit : most_credit) *
         quantum_of(table);
}

/// Brings the credit up to date.
void refill(const share_table& table, share_seat& x, share_ns now) {
  auto cap = cap_of(table.rules, x.claim);
  auto gained =
      cap * static_cast<double>(std::max<share_ns>(now - x.credited_at, 0));
  x.credit = std::min(x.credit + gained, most_kept(table));
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
    if (x.taken != 0) {
      x.part = x.weight = all.weight_of(x.claim);
      x.little = 0;
    }
  table.parted_at = 0;
}

/// What it is to have that cannot use `due`.
double part_of_little(double most, double due) {
  auto like = most / due;
  return most * (least_served + (1 - least_served) * like * like);
}

/// Gives each of those who use the device its part: who cannot use his weight
/// leaves the rest to the others, in proportion to theirs. So nobody waits for
/// one who is behind because he has no more to do.
void apportion(share_table& table, share_ns now) {
  if (!is_shared(table) || now - table.parted_at < part_again)
    return;
  table.parted_at = now;
  std::array<share_seat*, most_seats> all;
  auto count = std::size_t{0};
  auto left = 1.0;
  auto weights = 0.0;
  for (auto& x : table.seats)
    if (x.taken != 0 && (x.holds != 0 || x.wants != 0)) {
      all[count++] = &x;
      weights += x.weight;
    }
  for (auto sated = true; sated && count != 0;) {
    sated = false;
    auto level = left / weights;
    for (auto i = std::size_t{0}; i < count;) {
      auto& x = *all[i];
      auto most = std::min(x.demand, cap_of(table.rules, x.claim));
      x.part = x.weight * level;
      x.little = most < x.part ? 1 : 0;
      if (x.little == 0) {
        ++i;
        continue;
      }
      x.part = part_of_little(most, x.part);
      sated = true;
      left -= most;
      weights -= x.weight;
      all[i] = all[--count];
    }
  }
}

/// Brings the clock up to date.
void tick(share_table& table, share_ns now) {
  table.clock +=
      static_cast<double>(std::max<share_ns>(now - table.clock_at, 0)) /
      std::max(table.working, 1u);
  table.clock_at = now;
}

/// Turns last longer than they should where work cannot be stopped: long
/// kernels, or a device whose threads a busy host lets wait.
share_ns turn_lately(const share_table& table) {
  return std::max(table.rules.quantum, share_ns{table.lately_us} * 1000);
}

void note_turn(share_table& table, share_ns now) {
  auto before = std::exchange(table.turn_at, now);
  // Of several turns at a time each is as long as it should be.
  if (before == 0 || is_shared(table))
    return;
  auto last =
      std::clamp<share_ns>(now - before, 0, longest_turn * table.rules.quantum);
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

/// Whether it has waited for so long that priority counts no more.
bool is_starved(const share_table& table, const share_seat& x, share_ns now) {
  return x.wants != 0 && now - x.wants_since >= table.rules.starved_after;
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

/// Whether it has waited for others' sake for as long as anybody has to.
bool is_held_up(const share_table& table, const share_seat& x, share_ns now) {
  return x.wants != 0 && now - x.wants_since >= most_wait * table.rules.quantum;
}

/// Whether `a` has to wait for `b`, where both could have turns.
bool is_ahead(const share_table& table, const share_seat& a,
              const share_seat& b, share_ns now) {
  if (table.rules.policy == share_policy::priority) {
    if (is_starved(table, a, now))
      return false;
    if (a.claim.priority != b.claim.priority)
      return a.claim.priority < b.claim.priority;
  }
  // Who cannot use what is his takes nothing from anybody.
  return a.little == 0 && !is_held_up(table, a, now) &&
         (a.virtual_time - b.virtual_time) * a.part >
             most_lead * quantum_of(table);
}

/// Until when a turn that is not used is left to who has it.
share_ns unused_until(const share_table& table, const share_seat& x) {
  return x.idle_since + (x.idle_since == x.began ? table.rules.unused_after
                                                 : table.rules.idle_after);
}
bool is_unused(const share_table& table, const share_seat& x, share_ns now) {
  return x.idle_since != 0 && now >= unused_until(table, x);
}

/// Whether somebody who could use the device now is owed more than this seat.
bool must_wait(const share_table& table, std::int32_t seat, share_ns now) {
  const auto& x = at(table, seat);
  return std::any_of(
      table.seats.begin(), table.seats.end(), [&](const share_seat& y) {
        auto uses = y.holds != 0 ? !is_unused(table, y, now)
                                 : y.wants != 0 && credit_at(table, y) <= now;
        return uses && &y != &x && is_ahead(table, x, y, now);
      });
}

/// What the others were owed in vain is owed no more.
void forgive(share_table& table, const share_seat& x) {
  auto level = x.virtual_time - most_lead * quantum_of(table) / x.part;
  for (auto& y : table.seats)
    if (y.taken != 0)
      y.virtual_time = std::max(y.virtual_time, level);
}

struct candidate {
  std::int32_t seat = share_table::nobody;
  share_ns next_credit = std::numeric_limits<share_ns>::max();
};

/// Who is next, `but` aside; or when somebody will be.
candidate find_next(share_table& table, share_ns now,
                    std::int32_t but = share_table::nobody) {
  candidate out;
  if (table.waiting == 0)
    return out;
  for (auto i = std::int32_t{0}; i < std::int32_t{most_seats}; ++i) {
    auto& x = at(table, i);
    if (x.wants == 0 || i == but)
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
  auto length = is_shared(table)
                    ? static_cast<share_ns>(shared_turn * quantum_of(table))
                    : table.rules.quantum;
  if (cap_of(table.rules, x.claim) >= 1)
    return length;
  return std::min(length, static_cast<share_ns>(x.credit));
}

void set_turn(share_table& table, share_seat& x, share_ns now) {
  x.began = now;
  x.budget = turn_length(table, x);
  x.used_before = x.used;
  table.virtual_now = std::max(table.virtual_now, x.virtual_time);
}

void begin_turn(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  note_turn(table, now);
  want_nothing(table, seat);
  x.holds = 1;
  ++table.holders;
  ++x.turns;
  set_turn(table, x, now);
  x.idle_since = now; // until it brings work
}

/// What it would use if it were alone: how much of the device it fills while it
/// has work in it, and for how much of the time it has; the time that it lost
/// to others aside.
void note_demand(const share_table& table, share_seat& x, const share_use& use,
                 share_ns now) {
  auto had = static_cast<double>(now - std::exchange(x.charged_at, now));
  if (!is_shared(table) || x.holds == 0 || use.present <= 0 || use.wanted <= 0)
    return;
  auto present = static_cast<double>(use.present);
  auto wanted = static_cast<double>(use.wanted);
  auto served = std::min(static_cast<double>(use.worked) / wanted, 1.0);
  auto alone = std::max({had - present * (1 - served), present * served, 1.0});
  auto fills = std::min(leeway * wanted / present, 1.0);
  auto fresh = alone / (alone + demand_memory);
  x.demand +=
      fresh *
      (std::max(fills * present * served / alone, least_demand) - x.demand);
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
    x.credit = most_kept(table);
    x.credited_at = now;
    reweigh(table);
    return i;
  }
  return share_table::nobody;
}

void stand(share_table& table, std::int32_t seat, share_ns now) {
  end_turn(table, seat);
  want_nothing(table, seat);
  end_work(table, seat, now);
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
    x.credit = std::clamp(x.credit, 0.0, most_kept(table));
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
  ++table.waiting;
}

void want_nothing(share_table& table, std::int32_t seat) {
  if (std::exchange(at(table, seat).wants, 0) != 0)
    --table.waiting;
}

bool holds(const share_table& table, std::int32_t seat) {
  return at(table, seat).holds != 0;
}

bool is_fresh(const share_table& table, std::int32_t seat) {
  const auto& x = at(table, seat);
  return x.holds != 0 && x.idle_since == x.began;
}

share_ns left_of_turn(const share_table& table, std::int32_t seat,
                      share_ns now) {
  const auto& x = at(table, seat);
  if (is_shared(table))
    return x.budget - static_cast<share_ns>(x.used - x.used_before);
  return x.began + x.budget - now;
}

void begin_work(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  if (x.works == 0) {
    tick(table, now);
    x.works = 1;
    ++table.working;
    x.clocked = table.clock;
  }
  if (x.holds == 0 || x.idle_since == 0)
    return;
  auto gap = now - x.idle_since;
  if (is_fresh(table, seat))
    x.charged_at = now;
  else if (x.more != 0)
    x.charged_at += gap; // its worker was late, not it
  else if (!is_shared(table) && table.waiting != 0)
    x.virtual_time += static_cast<double>(gap) / x.part;
  x.idle_since = 0;
}

void end_work(share_table& table, std::int32_t seat, share_ns now, bool more) {
  auto& x = at(table, seat);
  x.more = more ? 1 : 0;
  if (x.works != 0) {
    tick(table, now);
    x.works = 0;
    --table.working;
  }
  if (x.holds != 0)
    x.idle_since = now;
}

share_ns charge(share_table& table, std::int32_t seat, const share_use& use,
                share_ns now) {
  auto& x = at(table, seat);
  if (x.taken == 0)
    return 0;
  refill(table, x, now);
  tick(table, now);
  auto served = static_cast<share_ns>(table.clock -
                                      std::exchange(x.clocked, table.clock));
  // Beside who has work in the device and hardly uses it, one does more.
  auto counts =
      std::clamp<share_ns>(std::max(served, use.worked), 0, use.present);
  auto did = use;
  if (did.worked < 0)
    did = {use.present, counts, use.present};
  x.used += static_cast<std::uint64_t>(counts);
  x.credit -= static_cast<double>(counts);
  x.virtual_time += static_cast<double>(did.worked) / x.part;
  note_demand(table, x, did, now);
  apportion(table, now);
  return counts;
}

bool renew(share_table& table, std::int32_t seat, share_ns now) {
  auto& x = at(table, seat);
  if (x.holds == 0)
    return false;
  refill(table, x, now);
  if (credit_at(table, x) > now)
    return false;
  if (is_shared(table) && must_wait(table, seat, now))
    return false;
  if (table.holders >= table.rules.at_once &&
      find_next(table, now, seat).seat != share_table::nobody)
    return false;
  set_turn(table, x, now);
  return true;
}

void end_turn(share_table& table, std::int32_t seat) {
  if (std::exchange(at(table, seat).holds, 0) != 0)
    --table.holders;
}

namespace {

/// Takes back turns that are not used, or whose work does not end. Returns when
/// one may be, at the latest.
share_ns take_back(share_table& table, share_ns now) {
  auto look = now + longest_wait;
  for (auto& x : table.seats) {
    if (x.holds == 0)
      continue;
    auto stalled = x.began + table.rules.stalled_after;
    if (is_unused(table, x, now) || now >= stalled) {
      end_turn(table, static_cast<std::int32_t>(&x - table.seats.data()));
      continue;
    }
    // Who is idle now is so until it brings work, who is not may be soon.
    auto idle = x.idle_since != 0 ? unused_until(table, x) : now + idle_look;
    look = std::min({look, idle, stalled});
  }
  return look;
}

} // namespace

share_outcome arbitrate(share_table& table, share_ns now) {
  share_outcome out;
  auto next = find_next(table, now);
  out.look_again = now + longest_wait;
  if (next.seat != share_table::nobody && table.holders != 0)
    out.look_again = take_back(table, now);
  while (next.seat != share_table::nobody &&
         table.holders < std::max(table.rules.at_once, 1u) &&
         (table.holders == 0 || !must_wait(table, next.seat, now))) {
    if (is_shared(table) && is_held_up(table, at(table, next.seat), now))
      forgive(table, at(table, next.seat));
    begin_turn(table, next.seat, now);
    out.granted.set(static_cast<std::size_t>(next.seat));
    out.look_again = std::min(out.look_again, now + idle_look);
    next = find_next(table, now);
  }
  out.look_again = std::max(std::min(out.look_again, next.next_credit), now);
  return out;
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
