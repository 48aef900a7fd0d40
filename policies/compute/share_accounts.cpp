#include "policies/compute/share_accounts.hpp"

#include <algorithm>

namespace vgpu::policy {

namespace {

/// Gives the smallest part of the device that is left to all sessions without a
/// promise together.
constexpr double least_rest = 0.05;
/// Gives the largest credit of a session, in quanta. A session that waits while
/// others have their turns needs it.
constexpr double most_credit = 2;
/// Gives the largest credit of a session where there are threads and no turns.
/// Threads do not wait for turns to end, so with more credit an idle session
/// would only exceed its limit for a while.
constexpr double most_credit_of_threads = 0.75;
/// Gives the credit with which a session may begin again, in quanta.
constexpr double enough_credit = 0.5;

} // namespace

double weighing::weight_of(const share_claim& x) const {
  auto rest = others_ == 0 ? 0 : std::max(1 - promised_, least_rest);
  auto scale = promised_ + rest > 1 ? 1 / (promised_ + rest) : 1;
  auto promise = policy_.promise(x);
  return scale * (promise < 1 ? promise : rest / others_);
}

void share_accounts::reweigh() const {
  weighing all{policy_};
  for (const auto& x : seated())
    if (x.taken != 0)
      all.add(x.claim);
  for (auto& x : seated())
    if (x.taken != 0)
      x.weight = all.weight_of(x.claim);
}

double share_accounts::average_of_active() const {
  auto reached = 0.0;
  auto weights = 0.0;
  for (const auto& x : seated())
    if (is_active(x)) {
      reached += x.weight * reached_by(x);
      weights += x.weight;
    }
  return weights > 0 ? reached / weights : 0;
}

double share_accounts::most_kept() const {
  return quantum() *
         (rules().processors == 0 ? most_credit : most_credit_of_threads);
}

void share_accounts::refill(share_seat& x, share_ns now) const {
  auto gained = cap_of(x) *
                static_cast<double>(std::max<share_ns>(now - x.credited_at, 0));
  x.credit = std::min(x.credit + gained, most_kept());
  x.credited_at = now;
}

share_ns share_accounts::credit_at(const share_seat& x) const {
  auto cap = cap_of(x);
  if (cap >= 1)
    return x.credited_at;
  auto missing = enough_credit * quantum() - x.credit;
  if (missing <= 0)
    return x.credited_at;
  return x.credited_at + static_cast<share_ns>(missing / cap) + 1;
}

bool share_accounts::has_credit(share_seat& x, share_ns now) const {
  if (cap_of(x) >= 1)
    return true;
  refill(x, now);
  if (x.credit <= 0)
    x.spent = 1;
  else if (credit_at(x) <= now)
    x.spent = 0;
  return x.spent == 0;
}

void share_accounts::use(share_seat& x, double used, share_ns now) const {
  x.credit -= used; // before refill(), which would cap the credit
  refill(x, now);
  x.used += static_cast<std::uint64_t>(used);
  x.virtual_time += used / x.weight;
}

} // namespace vgpu::policy
