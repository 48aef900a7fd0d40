// Which of several sessions' threads may work, where a pGPU is threads that the
// host runs on several processors at once.
#pragma once

#include "policies/compute/share_accounts.hpp"

namespace vgpu::policy {

/// Decides which threads run.
///
/// The table knows each thread of a session while it has something to do: it
/// runs, or it waits. As many run as there are processors, those of sessions
/// with the least virtual time first. A session that is ahead of nobody by more
/// than a little is not kept waiting in any case: the host then deals out the
/// time for a while, and better than sessions that would have to wake threads
/// for it. A session that came further ahead has only the processors that
/// nobody else wants, until it is ahead of nobody: a kernel that has some of
/// its threads' processors is slower by more than that, so sessions of
/// different speeds had better not share them. So nobody has to know what a
/// session could use: one that uses less than its part is always behind, is
/// served at once, and leaves the rest to the others.
///
/// A view of a table under one policy, made for one call.
class thread_engine {
public:
  explicit thread_engine(share_table& table)
      : thread_engine(table, row_of(table.rules.policy)) {}
  thread_engine(share_table& table, const share_policy_row& policy)
      : table_(table), state_(table.threads), accounts_(table, policy) {}

  /// A thread of the seat's has something to do. Whether it runs; otherwise it
  /// waits.
  bool begin(std::int32_t seat, share_ns now, thread_outcome& out);
  /// A running thread has worked for so long since it began, or since this was
  /// called last. Whether it goes on; otherwise it waits.
  bool go_on(std::int32_t seat, share_ns worked, share_ns now,
             thread_outcome& out);
  /// Whether a waiting thread runs now.
  bool is_let_in(std::int32_t seat, share_ns now, thread_outcome& out);
  /// A running thread has nothing to do any more.
  void end(std::int32_t seat, share_ns worked, share_ns now,
           thread_outcome& out);
  /// A waiting thread does so no more, whatever becomes of it.
  void give_up(std::int32_t seat, share_ns now, thread_outcome& out);
  /// The seat is about to be empty: frees what its threads ran on.
  void leave(std::int32_t seat);

  /// Lets in all that may run now: when rules, claims or seats have changed.
  void let_in(share_ns now, thread_outcome& out);
  /// When a waiting thread has to call is_let_in() at the latest.
  share_ns look_again(std::int32_t seat, share_ns now) const;

private:
  template <class F>
  void each_busy(F f) const;
  void note_busy(const share_seat& x);
  void limit_behind(share_seat& x) const;
  std::int64_t rank_of(const share_seat& x, share_ns now) const;
  bool is_ahead(const share_seat& a, const share_seat& b, double lead,
                share_ns now) const;
  bool is_stalled(const share_seat& x, share_ns now) const;
  std::uint32_t running(share_ns now) const;
  bool is_ahead_of_any(share_seat& x, double lead, share_ns now) const;
  bool is_held(share_seat& x, share_ns now) const;
  bool yields_to(const share_seat& x, const share_seat& y, share_ns now) const;
  void run_one(share_seat& x, share_ns now, thread_outcome& out);
  void stop_one(share_seat& x, share_ns now);
  void wait_one(share_seat& x, share_ns now);
  share_seat* next_to_run(share_ns now) const;
  bool must_stop(share_seat& x, share_ns now) const;
  void charge(share_seat& x, share_ns worked, share_ns now);

  share_table& table_;
  thread_state& state_;
  share_accounts accounts_;
};

} // namespace vgpu::policy
