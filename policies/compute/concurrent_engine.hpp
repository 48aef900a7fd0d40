// Sessions that use a device at the same time, as each by itself leaves much of
// it idle: floods of short kernels, which take longer to launch than to run,
// and copies beside kernels.
#pragma once

#include "policies/compute/share_accounts.hpp"

namespace vgpu::policy {

/// Decides when sessions run concurrently, and which of them waits then.
///
/// What a piece of work takes alone is known from turns. If sessions that run
/// concurrently get more done in a second than takes a second alone, that is
/// more than turns could give them. The engine tries it now and then, and goes
/// on for as long as it is so. Meanwhile sessions are charged with what work
/// takes alone, and not with how long it took among others'. A session that
/// gets ahead of another by that waits, but only for one that is slower than
/// alone and has nothing to do but to wait for the device: any other session
/// could do no more, or is held up by its host, and is owed nothing.
///
/// A view of a table under one policy, made for one call.
class concurrent_engine {
public:
  explicit concurrent_engine(share_table& table)
      : concurrent_engine(table, row_of(table.rules.policy)) {}
  concurrent_engine(share_table& table, const share_policy_row& policy)
      : table_(table), state_(table.concurrent), accounts_(table, policy) {}

  /// Whether the seat may bring work now, while sessions run concurrently.
  bool may_join(std::int32_t seat, share_ns now);
  /// The seat's next work is a long copy, for which a device has engines that
  /// kernels do not use.
  void set_copies(std::int32_t seat, bool copies);
  /// Notes work that is done, as turn_engine::charge() has it.
  void note_done(std::int32_t seat, const share_work& predicted,
                 const share_work& took, share_ns now);
  /// Notes that a turn begins.
  void note_turn_begins() { ++state_.turns_since_; }
  /// Notes how long a turn of the seat took.
  void note_turn_took(std::int32_t seat, share_ns took);

  /// Lets sessions run concurrently from now on, if it is time to try. For when
  /// no turn is under way.
  bool try_begin(share_ns now);
  /// Lets them from now on in any case.
  void begin(share_ns now);
  /// Returns to turns: there is work of which nobody knows what it takes.
  void part();
  /// Returns to turns, and forgets what was tried: the seats or rules changed.
  void part_anew();

  /// Whether work is in the device that was brought concurrently. Work that
  /// does not end is not waited for.
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
