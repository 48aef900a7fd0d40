// What turns and threads have in common: what a seat may have, and what it had.
#pragma once

#include "policies/compute/share.hpp"

#include <span>

namespace vgpu::policy::share_account {

/// The part of the device's time that it may not exceed.
double cap_of(share_policy policy, const share_claim& claim);

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
  double weight_of(const share_claim& x) const;

private:
  bool promises(const share_claim& x) const { return x.share < 1 && !equal_; }

  bool equal_;
  double promised_ = 0;
  double others_ = 0;
};

inline double quantum_of(const share_table& table) {
  return static_cast<double>(table.rules.quantum);
}
inline share_seat& at(share_table& table, std::int32_t seat) {
  return table.seats[static_cast<std::size_t>(seat)];
}

/// As many as there may be taken ones.
inline std::span<share_seat> seated(share_table& table) {
  return std::span{table.seats}.first(table.seated);
}
inline std::span<const share_seat> seated(const share_table& table) {
  return std::span{table.seats}.first(table.seated);
}

/// Where it will be when what it has brought is done.
inline double reached_by(const share_seat& x) {
  return x.virtual_time + x.brought / x.weight;
}
/// Whether it has work, and may bring it.
inline bool is_active(const share_seat& x) {
  return x.taken != 0 && x.spent == 0 &&
         (x.working != 0 || x.wants != 0 || x.let_in != 0);
}
/// Where those are who have work, on average; nobody has: 0.
double average_of_active(const share_table& table);

/// Brings the credit up to date.
void refill(const share_table& table, share_seat& x, share_ns now);
/// When the seat will have credit enough to begin; now or earlier: it has.
share_ns credit_at(const share_table& table, const share_seat& x);
/// Whether it may go on where there are no turns. When its credit is used up,
/// not before there is enough to begin.
bool has_credit(const share_table& table, share_seat& x, share_ns now);
/// Notes that so much device time was used for it.
void use(const share_table& table, share_seat& x, double used, share_ns now);

} // namespace vgpu::policy::share_account
