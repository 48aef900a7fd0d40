#include "policies/compute/share_account.hpp"
#include "policies/compute/share_concurrent.hpp"

#include <algorithm>

namespace vgpu::policy {

namespace share_account {

namespace {

/// What is left to those who were promised nothing, at least, in all.
constexpr double least_rest = 0.05;
/// In quanta: how much credit is kept for later. Where others have their turns
/// first it is needed; threads do not wait for turns to end, and it would only
/// let who was idle exceed its limit for a while.
constexpr double most_credit = 2;
constexpr double most_credit_of_threads = 0.75;
/// In quanta: with so much credit it is worth beginning.
constexpr double enough_credit = 0.5;

double most_kept(const share_table& table) {
  return quantum_of(table) *
         (table.rules.processors == 0 ? most_credit : most_credit_of_threads);
}

} // namespace

double cap_of(share_policy policy, const share_claim& claim) {
  if (policy == share_policy::best_effort)
    return 1;
  if (policy == share_policy::fixed)
    return std::min(claim.share, claim.limit);
  return claim.limit;
}

double weighing::weight_of(const share_claim& x) const {
  auto rest = others_ == 0 ? 0 : std::max(1 - promised_, least_rest);
  auto scale = promised_ + rest > 1 ? 1 / (promised_ + rest) : 1;
  return scale * (promises(x) ? x.share : rest / others_);
}

double average_of_active(const share_table& table) {
  auto reached = 0.0;
  auto weights = 0.0;
  for (const auto& x : seated(table))
    if (is_active(x)) {
      reached += x.weight * reached_by(x);
      weights += x.weight;
    }
  return weights > 0 ? reached / weights : 0;
}

void refill(const share_table& table, share_seat& x, share_ns now) {
  auto gained = cap_of(table.rules.policy, x.claim) *
                static_cast<double>(std::max<share_ns>(now - x.credited_at, 0));
  x.credit = std::min(x.credit + gained, most_kept(table));
  x.credited_at = now;
}

share_ns credit_at(const share_table& table, const share_seat& x) {
  auto cap = cap_of(table.rules.policy, x.claim);
  if (cap >= 1)
    return x.credited_at;
  auto missing = enough_credit * quantum_of(table) - x.credit;
  if (missing <= 0)
    return x.credited_at;
  return x.credited_at + static_cast<share_ns>(missing / cap) + 1;
}

bool has_credit(const share_table& table, share_seat& x, share_ns now) {
  if (cap_of(table.rules.policy, x.claim) >= 1)
    return true;
  refill(table, x, now);
  if (x.credit <= 0)
    x.spent = 1;
  else if (credit_at(table, x) <= now)
    x.spent = 0;
  return x.spent == 0;
}

void use(const share_table& table, share_seat& x, double used, share_ns now) {
  x.credit -= used; // what came meanwhile is not too much to keep
  refill(table, x, now);
  x.used += static_cast<std::uint64_t>(used);
  x.virtual_time += used / x.weight;
}

} // namespace share_account

using namespace share_account;

namespace {

void reweigh(share_table& table) {
  weighing all{table.rules.policy};
  for (auto& x : seated(table))
    if (x.taken != 0)
      all.add(x.claim);
  for (auto& x : seated(table))
    if (x.taken != 0)
      x.weight = all.weight_of(x.claim);
}

} // namespace

std::optional<share_policy> parse_share_policy(std::string_view name) {
  for (auto i = 0u; i < share_policy_names.size(); ++i)
    if (share_policy_names[i] == name)
      return static_cast<share_policy>(i);
  return {};
}

std::int32_t sit(share_table& table, const share_claim& claim, share_ns now) {
  for (auto i = std::int32_t{0}; i < std::int32_t{most_seats}; ++i) {
    auto& x = at(table, i);
    if (x.taken != 0)
      continue;
    x = {};
    x.taken = 1;
    table.seated = std::max(table.seated, static_cast<std::uint32_t>(i) + 1);
    x.claim = claim;
    // Where who has all that it can use is, is no place for who has nothing
    // yet.
    x.virtual_time = table.rules.processors == 0
                         ? std::max(table.virtual_now, average_of_active(table))
                         : table.virtual_now;
    x.credit = most_kept(table);
    x.credited_at = now;
    reweigh(table);
    part_anew(table);
    return i;
  }
  return share_table::nobody;
}

void stand(share_table& table, std::int32_t seat) {
  auto& x = at(table, seat);
  end_turn(table, seat);
  if (table.had_turn == seat)
    table.had_turn = share_table::nobody;
  want_nothing(table, seat);
  table.running -= x.running;
  table.busy.reset(static_cast<std::size_t>(seat));
  x = {};
  while (table.seated != 0 && table.seats[table.seated - 1].taken == 0)
    --table.seated;
  reweigh(table);
  part_anew(table);
}

void set_claim(share_table& table, std::int32_t seat, const share_claim& claim,
               share_ns now) {
  auto& x = at(table, seat);
  refill(table, x, now);
  x.claim = claim;
  reweigh(table);
  part_anew(table);
}

void set_rules(share_table& table, const share_rules& rules, share_ns now) {
  for (auto& x : seated(table))
    refill(table, x, now);
  table.rules = rules;
  reweigh(table);
  part_anew(table);
  // What was owed under other rules is forgotten.
  for (auto& x : seated(table)) {
    x.virtual_time = table.virtual_now;
    x.credit = std::clamp(x.credit, 0.0, most_kept(table));
  }
}

bool contested(const share_table& table) {
  if (table.rules.policy == share_policy::best_effort)
    return false;
  auto taken = 0;
  auto capped = false;
  for (auto& x : seated(table))
    if (x.taken != 0) {
      ++taken;
      capped = capped || cap_of(table.rules.policy, x.claim) < 1;
    }
  return taken > 1 || capped;
}

} // namespace vgpu::policy
