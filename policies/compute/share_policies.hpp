// The policies by which sessions share a pGPU's compute, one row each. The
// engines (turn_engine.hpp, concurrent_engine.hpp, thread_engine.hpp) and
// grants_of() (share_grants.hpp) know nothing of a policy but its row.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vgpu::policy {

/// Describes a session's demand for one pGPU's compute.
struct share_claim {
  /// Holds the promised part of the device's time, in (0, 1]. 1 promises
  /// nothing: the session gets an equal part of the time that is not promised.
  double share = 1;
  /// Holds the part that the session never exceeds in the long run, in (0, 1].
  double limit = 1;
  /// Orders sessions where the policy ranks them: a larger one goes first.
  std::int32_t priority = 0;
  std::uint32_t unused = 0;
};

/// Numbers the policies by their rows in share_policies. Processes exchange the
/// numbers in shared memory, so a new policy goes to the end.
enum class share_policy : std::uint32_t {
  best_effort,
  equal,
  fixed,
  guarantee,
  priority,
};

/// Describes one policy. Its functions are pure and may be called from any
/// thread.
struct share_policy_row {
  /// Holds the name that users write: `vgpu policy a/0 NAME`.
  std::string_view name;
  /// Tells whether sessions are scheduled at all. If not, the device or its
  /// host schedules the sessions that have work.
  bool schedules = true;
  /// Returns a session's weight: the part of the device's time that is promised
  /// to it, in (0, 1). 1: the session gets an equal part of the rest.
  double (*promise)(const share_claim&) = nullptr;
  /// Returns the part of the device's time that a session never exceeds in the
  /// long run, in (0, 1]. 1: there is no limit.
  double (*cap)(const share_claim&) = nullptr;
  /// Returns a session's rank. Sessions of higher rank go first, regardless of
  /// their use, until those of lower rank starve (share_rules::starved_after).
  /// Null: all have the same rank.
  std::int32_t (*rank)(const share_claim&) = nullptr;
  /// Tells whether sessions may run without turns while that is a gain
  /// (concurrent_engine.hpp).
  bool concurrent = false;

  bool ranks() const { return rank != nullptr; }
  std::int32_t rank_of(const share_claim& x) const {
    return ranks() ? rank(x) : 0;
  }
};

/// Holds the functions from which rows are made.
namespace share_terms {

constexpr double promise_nothing(const share_claim&) {
  return 1;
}
constexpr double promise_share(const share_claim& x) {
  return x.share;
}
constexpr double no_cap(const share_claim&) {
  return 1;
}
constexpr double cap_at_limit(const share_claim& x) {
  return x.limit;
}
constexpr double cap_at_share(const share_claim& x) {
  return std::min(x.share, x.limit);
}
constexpr std::int32_t rank_by_priority(const share_claim& x) {
  return x.priority;
}

} // namespace share_terms

/// Lists the policies in the order of share_policy.
inline constexpr std::array share_policies{
    // Sessions are not scheduled, and all have the same weight.
    share_policy_row{.name = "best-effort",
                     .schedules = false,
                     .promise = share_terms::promise_nothing,
                     .cap = share_terms::no_cap},
    // All sessions get the same part, regardless of their shares.
    share_policy_row{.name = "equal",
                     .promise = share_terms::promise_nothing,
                     .cap = share_terms::cap_at_limit,
                     .concurrent = true},
    // A session gets its share and no more, even if the device is idle.
    share_policy_row{.name = "fixed",
                     .promise = share_terms::promise_share,
                     .cap = share_terms::cap_at_share,
                     .concurrent = true},
    // A session gets at least its share. Unused time is redistributed in
    // proportion to the shares, up to each session's limit.
    share_policy_row{.name = "guarantee",
                     .promise = share_terms::promise_share,
                     .cap = share_terms::cap_at_limit,
                     .concurrent = true},
    // Sessions of the highest priority with work go first. Those of one
    // priority
    // share as under `guarantee`.
    share_policy_row{.name = "priority",
                     .promise = share_terms::promise_share,
                     .cap = share_terms::cap_at_limit,
                     .rank = share_terms::rank_by_priority},
};

constexpr const share_policy_row& row_of(share_policy x) {
  return share_policies[static_cast<std::size_t>(x)];
}
constexpr std::string_view name_of(share_policy x) {
  return row_of(x).name;
}

/// Lists the names in the order of share_policy.
inline constexpr auto share_policy_names = [] {
  std::array<std::string_view, share_policies.size()> out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = share_policies[i].name;
  return out;
}();

/// Returns the policy of this name, or nothing if there is none.
std::optional<share_policy> parse_share_policy(std::string_view name);

/// Returns the names for people: "best-effort, equal, ... or priority".
std::string list_share_policies();

} // namespace vgpu::policy
