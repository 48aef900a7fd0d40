// The part that all engines share: each seat's weight, credit and past use.
#pragma once

#include "policies/compute/share_table.hpp"

#include <algorithm>
#include <span>

namespace vgpu::policy {

/// Divides a device among claims. Sessions with a promise get what is promised,
/// and the others share the rest equally. Promises that exceed the device are
/// scaled down.
class weighing {
public:
  explicit weighing(const share_policy_row& policy) : policy_(policy) {}

  void add(const share_claim& x) {
    auto promise = policy_.promise(x);
    (promise < 1 ? promised_ : others_) += std::min(promise, 1.0);
  }
  /// Returns the weight of an added claim. Call it when all claims are added.
  double weight_of(const share_claim& x) const;

private:
  const share_policy_row& policy_;
  double promised_ = 0;
  double others_ = 0;
};

/// Keeps the accounts of a table's seats under one policy: weighted fair
/// queueing, with a credit for each limit. It is a view, made for one call.
class share_accounts {
public:
  share_accounts(share_table& table, const share_policy_row& policy)
      : table_(table), policy_(policy) {}

  const share_policy_row& policy() const { return policy_; }
  const share_rules& rules() const { return table_.rules; }
  double quantum() const { return static_cast<double>(table_.rules.quantum); }

  share_seat& at(std::int32_t seat) const {
    return table_.seats[static_cast<std::size_t>(seat)];
  }
  std::size_t number_of(const share_seat& x) const {
    return static_cast<std::size_t>(&x - table_.seats.data());
  }
  /// Returns the seats up to the last taken one.
  std::span<share_seat> seated() const {
    return std::span{table_.seats}.first(table_.seated);
  }

  /// Gives each taken seat its weight.
  void reweigh() const;
  double cap_of(const share_seat& x) const { return policy_.cap(x.claim); }
  std::int32_t rank_of(const share_seat& x) const {
    return policy_.rank_of(x.claim);
  }

  /// Returns the virtual time of a seat when all its work in the device is
  /// done.
  static double reached_by(const share_seat& x) {
    return x.virtual_time + x.brought / x.weight;
  }
  /// Returns whether a seat has work, and may bring it.
  static bool is_active(const share_seat& x) {
    return x.taken != 0 && x.spent == 0 &&
           (x.working != 0 || x.wants != 0 || x.let_in != 0);
  }
  /// Returns the average reached_by() of the active seats, or 0 if there are
  /// none.
  double average_of_active() const;

  /// Returns the largest credit of a seat, in ns.
  double most_kept() const;
  /// Brings a seat's credit up to date.
  void refill(share_seat& x, share_ns now) const;
  /// Returns when a seat will have enough credit to begin. A time that is not
  /// after the present means that it has.
  share_ns credit_at(const share_seat& x) const;
  /// Returns whether a seat may continue where there are no turns. A seat that
  /// used up its credit must wait until it has enough to begin.
  bool has_credit(share_seat& x, share_ns now) const;
  /// Charges a seat with device time, in ns.
  void use(share_seat& x, double used, share_ns now) const;

private:
  share_table& table_;
  const share_policy_row& policy_;
};

} // namespace vgpu::policy
