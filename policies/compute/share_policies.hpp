// The policies by which sessions share a pGPU's compute: one row each. What a
// row says is all that the engines (turn_engine.hpp, concurrent_engine.hpp,
// thread_engine.hpp) and the long run (share_grants.hpp) know of a policy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vgpu::policy {

/// What a session asks of one pGPU's compute.
struct share_claim {
  /// The part of the device's time that is promised, in (0, 1]. 1 promises
  /// nothing: the session takes an equal part of what is promised to nobody.
  double share = 1;
  /// The part that the session never exceeds in the long run, in (0, 1].
  double limit = 1;
  /// Sessions of larger priority go first, where the policy ranks sessions.
  std::int32_t priority = 0;
  std::uint32_t unused = 0;
};

/// A policy's number: its row's place in share_policies. Processes share it in
/// memory, so a new policy goes to the end.
enum class share_policy : std::uint32_t {
  best_effort,
  equal,
  fixed,
  guarantee,
  priority,
};

/// What one policy decides. Its functions are pure and may be called from any
/// thread.
struct share_policy_row {
  /// The name that users write: `vgpu policy a/0 NAME`.
  std::string_view name;
  /// Whether sessions are scheduled at all. Without, the device or its host
  /// divides itself among those that have work.
  bool schedules = true;
  /// A session's weight: the part of the device's time that is promised to it,
  /// in (0, 1). 1: nothing is, and it takes an equal part of the rest.
  double (*promise)(const share_claim&) = nullptr;
  /// The part of the device's time that a session never exceeds in the long
  /// run, in (0, 1]. 1: there is no limit.
  double (*cap)(const share_claim&) = nullptr;
  /// Sessions of higher rank go first, whatever each had so far, until those of
  /// lower rank starve (share_rules::starved_after). Null: all rank the same.
  std::int32_t (*rank)(const share_claim&) = nullptr;
  /// Whether turns may be given up for as long as sessions get more done
  /// concurrently (concurrent_engine.hpp).
  bool concurrent = false;

  bool ranks() const { return rank != nullptr; }
  std::int32_t rank_of(const share_claim& x) const {
    return ranks() ? rank(x) : 0;
  }
};

/// What rows are made of.
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

/// The rows, in the order of share_policy.
inline constexpr std::array share_policies{
    // Nobody is scheduled, and all count the same.
    share_policy_row{.name = "best-effort",
                     .schedules = false,
                     .promise = share_terms::promise_nothing,
                     .cap = share_terms::no_cap},
    // The same for everybody, whatever was asked for.
    share_policy_row{.name = "equal",
                     .promise = share_terms::promise_nothing,
                     .cap = share_terms::cap_at_limit,
                     .concurrent = true},
    // What was asked for and no more, although the device may be idle.
    share_policy_row{.name = "fixed",
                     .promise = share_terms::promise_share,
                     .cap = share_terms::cap_at_share,
                     .concurrent = true},
    // At least what was asked for. What others leave is redistributed in the
    // same proportions, up to each one's limit.
    share_policy_row{.name = "guarantee",
                     .promise = share_terms::promise_share,
                     .cap = share_terms::cap_at_limit,
                     .concurrent = true},
    // The highest priority that has work, and among those of one priority as
    // under guarantee.
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

/// The names, in the order of share_policy.
inline constexpr auto share_policy_names = [] {
  std::array<std::string_view, share_policies.size()> out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = share_policies[i].name;
  return out;
}();

/// The policy of this name; nothing where there is none.
std::optional<share_policy> parse_share_policy(std::string_view name);

/// The names as a person reads them: "best-effort, equal, ... or priority".
std::string list_share_policies();

} // namespace vgpu::policy
