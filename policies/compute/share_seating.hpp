// Who sits at a pGPU, with which claims and under which rules.
#pragma once

#include "policies/compute/thread_engine.hpp"
#include "policies/compute/turn_engine.hpp"

namespace vgpu::policy {

/// Changes a table's seats, claims and rules, and what the engines know of
/// them. A view of a table under one policy, made for one call.
class share_seating {
public:
  explicit share_seating(share_table& table)
      : share_seating(table, row_of(table.rules.policy)) {}
  share_seating(share_table& table, const share_policy_row& policy)
      : table_(table), policy_(policy), accounts_(table, policy),
        turns_(table, policy), concurrent_(table, policy),
        threads_(table, policy) {}

  /// Takes a free seat; nobody when there is none. A newcomer begins where the
  /// others are.
  std::int32_t sit(const share_claim& claim, share_ns now);
  /// Frees the seat, and with it its turn or what its threads ran on.
  void stand(std::int32_t seat);
  void set_claim(std::int32_t seat, const share_claim& claim, share_ns now);

  /// Brings all credits up to date, before the rules change.
  void settle(share_ns now);
  /// Begins under new rules. What was owed under others is forgotten.
  void begin_anew();

  /// Whether sessions are to be scheduled at all: there are several, or one
  /// that must not have everything.
  bool contested() const;

private:
  share_table& table_;
  const share_policy_row& policy_;
  share_accounts accounts_;
  turn_engine turns_;
  concurrent_engine concurrent_;
  thread_engine threads_;
};

} // namespace vgpu::policy
