// The sessions at a pGPU, with their claims and the rules.
#pragma once

#include "policies/compute/thread_engine.hpp"
#include "policies/compute/turn_engine.hpp"

namespace vgpu::policy {

/// Changes a table's seats, claims and rules, and the engines' data about them.
/// It is a view of a table under one policy, made for one call.
class share_seating {
public:
  explicit share_seating(share_table& table)
      : share_seating(table, row_of(table.rules.policy)) {}
  share_seating(share_table& table, const share_policy_row& policy)
      : table_(table), policy_(policy), accounts_(table, policy),
        turns_(table, policy), concurrent_(table, policy),
        threads_(table, policy) {}

  /// Takes a free seat, or returns share_table::nobody if there is none. The
  /// session begins at the virtual time of the others.
  std::int32_t sit(const share_claim& claim, share_ns now);
  /// Frees the seat, and with it its turn or its threads' processors.
  void stand(std::int32_t seat);
  void set_claim(std::int32_t seat, const share_claim& claim, share_ns now);

  /// Brings all credits up to date, before the rules change.
  void settle(share_ns now);
  /// Begins under new rules, and forgets the accounts of the old ones.
  void begin_anew();

  /// Returns whether sessions have to be scheduled at all: there are several,
  /// or one with a limit.
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
