// Sessions that use a device at the same time, because each alone would leave
// much of it idle: sessions with many short kernels, which take longer to
// launch than to run, or with copies that can overlap kernels.
#pragma once

#include "policies/compute/share_accounts.hpp"

namespace vgpu::policy {

/// Decides when sessions run concurrently, and which of them wait meanwhile.
///
/// Turns measure how long each piece of work takes alone. If concurrent
/// sessions complete, within a second, work that would take more than a second
/// in turns, running concurrently is a gain. The engine tries it from time to
/// time, and continues as long as there is a gain. Meanwhile it charges
/// sessions with the time that their work takes alone, not with the time that
/// it took among other work. A session that is ahead of another one waits, but
/// only for a session that is slower than alone because it waits for the
/// device. Any other session has no more work, or is slowed by its host, so
/// waiting for it would not help.
///
/// A view of a table under one policy, made for one call.
class concurrent_engine {
public:
  explicit concurrent_engine(share_table& table)
      : concurrent_engine(table, row_of(table.rules.policy)) {}
  concurrent_engine(share_table& table, const share_policy_row& policy)
      : table_(table), state_(table.concurrent), accounts_(table, policy) {}

  /// Returns whether the seat may bring work now, while sessions run
  /// concurrently.
  bool may_join(std::int32_t seat, share_ns now);
  /// Says whether the seat's next work is a long copy, for which a device has
  /// engines that kernels do not use.
  void set_copies(std::int32_t seat, bool copies);
  /// Records finished work, with the arguments of turn_engine::charge().
  void note_done(std::int32_t seat, const share_work& predicted,
                 const share_work& took, share_ns now);
  /// Records that a turn begins.
  void note_turn_begins() { ++state_.turns_since_; }
  /// Records how long a turn of the seat took.
  void note_turn_took(std::int32_t seat, share_ns took);

  /// Lets sessions run concurrently from now on, if it is time to try. Returns
  /// whether it did. Precondition: no seat has a turn.
  bool try_begin(share_ns now);
  /// Lets sessions run concurrently from now on.
  void begin(share_ns now);
  /// Returns to turns, for example because it is unknown what some work takes.
  void part();
  /// Returns to turns, and forgets all trials, because seats or rules changed.
  void part_anew();

  /// Returns whether the device still has work that was brought concurrently.
  /// Work that does not end does not count.
  bool drains(share_ns now);

private:
  bool is_hindered(const share_seat& x, share_ns now) const;
  std::uint32_t taken_seats() const;
  bool several_are_known(share_ns now) const;
  bool may_try(share_ns now) const;
  void measure_from(share_ns now);
  bool is_stale(double load, share_ns now) const;
  void measure_gain(share_ns now);
  void note_reached();
  void limit_saved(share_seat& x);
  bool waits_for_nobody(const share_seat& x, share_ns now) const;

  static bool takes_longer(const share_seat& x);
  static double in_turns(const share_seat& x);

  share_table& table_;
  concurrent_state& state_;
  share_accounts accounts_;
};

} // namespace vgpu::policy
