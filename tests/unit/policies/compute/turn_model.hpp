// A simulation of one device that sessions use in turns, in virtual time.
#pragma once

#include "policies/compute/share.hpp"
#include "tests/unit/policies/compute/share_units.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace vgpu::policy {

/// A program that launches kernels one after another, each `gap` after the end
/// of the one before.
struct turn_program {
  share_claim claim{};
  share_ns kernel = 1 * ms;
  share_ns gap = 0;
  share_ns from = 0;
  share_ns to = never;
  /// A kernel that begins after this time never ends.
  share_ns hangs_at = never;

  std::int32_t seat = share_table::nobody;
  share_ns ready_at = 0;
  share_ns waited = 0; // the longest wait
  bool hung = false;
};

/// One device that executes one kernel at a time, and the workers' part in
/// turns. A change of turns costs `handover`.
class turn_model {
public:
  share_table table;
  std::vector<turn_program> programs;
  share_ns handover = 50 * us;
  share_ns now = 1 * s;

  /// Uses the policy `own`, or the one that the rules name.
  explicit turn_model(const share_rules& rules = {},
                      const share_policy_row* own = nullptr)
      : own_(own) {
    table.rules = rules;
  }

  void add(turn_program x) {
    x.seat = share_seating{table, policy()}.sit(x.claim, now);
    x.ready_at = now + x.from;
    x.to = x.to == never ? never : now + x.to;
    x.hangs_at = x.hangs_at == never ? never : now + x.hangs_at;
    programs.push_back(x);
    history_.emplace_back();
  }

  void run(share_ns span) {
    auto end = now + span;
    while (now < end) {
      collect();
      if (work())
        continue;
      auto outcome = turns().arbitrate(now);
      if (outcome.granted != share_table::nobody) {
        auto& x = of_granted(outcome);
        x.waited = std::max(x.waited, now - x.ready_at);
        now += handover;
        continue;
      }
      auto next = std::min(outcome.look_again, end);
      for (auto& x : programs)
        if (x.ready_at > now && !x.hung)
          next = std::min(next, x.ready_at);
      now = std::max(next, now + 1);
    }
  }

  /// Returns a program's device time in [from, to).
  double used(std::size_t i, share_ns from, share_ns to) const {
    auto sum = share_ns{0};
    for (auto [begin, end] : history_[i])
      sum += std::max<share_ns>(std::min(end, to) - std::max(begin, from), 0);
    return static_cast<double>(sum);
  }

  /// Returns the largest difference between the program's part of a window of 2
  /// s and `promise`, after a second to settle.
  double worst(std::size_t i, double promise) const {
    auto out = 0.0;
    constexpr auto window = 2 * s;
    for (auto at = 2 * s; at + window <= now; at += 37 * ms)
      out =
          std::max(out, std::abs(used(i, at, at + window) / window - promise));
    return out;
  }

  double jain(share_ns from, share_ns to) const {
    auto sum = 0.0;
    auto squares = 0.0;
    for (auto i = 0u; i < programs.size(); ++i) {
      auto x = used(i, from, to);
      sum += x;
      squares += x * x;
    }
    return sum * sum / (static_cast<double>(programs.size()) * squares);
  }

  double busy(share_ns from, share_ns to) const {
    auto out = 0.0;
    for (auto i = 0u; i < programs.size(); ++i)
      out += used(i, from, to) / static_cast<double>(to - from);
    return out;
  }

private:
  const share_policy_row& policy() const {
    return own_ != nullptr ? *own_ : row_of(table.rules.policy);
  }
  turn_engine turns() { return turn_engine{table, policy()}; }

  turn_program& of_granted(const share_outcome& outcome) {
    return *std::find_if(programs.begin(), programs.end(),
                         [&](auto& x) { return outcome.granted == x.seat; });
  }

  void collect() {
    for (auto& x : programs)
      if (!holds(table, x.seat) && x.ready_at <= now && !x.hung && now < x.to)
        turns().want(x.seat, x.ready_at);
  }

  /// Runs the next kernel of the turn's holder, if it has one. Returns whether
  /// it did.
  bool work() {
    auto holder = std::find_if(programs.begin(), programs.end(),
                               [&](auto& y) { return holds(table, y.seat); });
    if (holder == programs.end())
      return false;
    auto& x = *holder;
    if (x.ready_at > now || x.hung || now >= x.to)
      return false;
    if (left_of_turn(table, now) < x.kernel / 2 && !is_fresh(table, x.seat) &&
        !turns().renew(x.seat, now)) {
      turns().end_turn(x.seat);
      x.ready_at = now;
      turns().want(x.seat, now);
      return false;
    }
    turns().begin_work(x.seat, now);
    if (now >= x.hangs_at) {
      x.hung = true;
      return false;
    }
    auto& mine = history_[static_cast<std::size_t>(&x - programs.data())];
    mine.emplace_back(now, now + x.kernel);
    now += x.kernel;
    turns().charge(x.seat, {x.kernel, x.kernel}, {x.kernel, x.kernel}, now);
    turns().end_work(x.seat, now, false);
    x.ready_at = now + x.gap;
    return true;
  }

  const share_policy_row* own_;
  std::vector<std::vector<std::pair<share_ns, share_ns>>> history_;
};

} // namespace vgpu::policy
