#include "policies/compute/share_grants.hpp"

#include "policies/compute/share_accounts.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace vgpu::policy {

namespace {

/// Describes one of the sessions that share the rest of a device.
struct grantee {
  double weight = 0;
  double most = 0; // the part that it can use
  double* granted = nullptr;
};

/// Gives each session its part by weight, and redistributes what a session
/// cannot use. Returns the part that no session could use.
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

std::vector<double> grants_of(const share_policy_row& policy,
                              std::span<const share_user> users) {
  weighing weights{policy};
  for (const auto& x : users)
    weights.add(x.claim);
  std::vector<double> out(users.size(), 0.0);
  std::map<std::int32_t, std::vector<grantee>, std::greater<>> levels;
  for (std::size_t i = 0; i < users.size(); ++i) {
    const auto& [claim, wants] = users[i];
    if (wants > 0)
      levels[policy.rank_of(claim)].push_back(
          {weights.weight_of(claim), std::min(wants, policy.cap(claim)),
           &out[i]});
  }
  auto left = 1.0;
  for (auto& [rank, all] : levels)
    left = fill(std::move(all), left);
  return out;
}

} // namespace vgpu::policy
