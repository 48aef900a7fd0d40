// Which sessions' threads may run, on a pGPU that consists of threads on
// several processors of the host.
#pragma once

#include "policies/compute/share_accounts.hpp"

namespace vgpu::policy {

/// Decides which threads run.
///
/// The table counts each thread that has work as running or waiting. As many
/// run as there are processors, those of sessions with the least virtual time
/// first. Threads of a session that is ahead of no other by more than a little
/// never wait: the host's scheduler then divides the time, which costs less
/// than waking threads. A session that is further ahead gets only processors
/// that no other session wants, until it is ahead of none, because a kernel
/// that loses some of its threads' processors slows down by more than that
/// part. So the engine need not know what a session could use: a session that
/// uses less than its part is always behind and is served at once, and the
/// others use the rest.
///
/// It is a view of a table under one policy, made for one call.
class thread_engine {
public:
  explicit thread_engine(share_table& table)
      : thread_engine(table, row_of(table.rules.policy)) {}
  thread_engine(share_table& table, const share_policy_row& policy)
      : table_(table), state_(table.threads), accounts_(table, policy) {}

  /// Records that a thread of the seat has work. Returns whether it runs;
  /// otherwise it waits.
  bool begin(std::int32_t seat, share_ns now, thread_outcome& out);
  /// Records how long a running thread has worked since it began or last called
  /// this. Returns whether it continues; otherwise it waits.
  bool go_on(std::int32_t seat, share_ns worked, share_ns now,
             thread_outcome& out);
  /// Returns whether a waiting thread runs now.
  bool is_let_in(std::int32_t seat, share_ns now, thread_outcome& out);
  /// Records that a running thread has no more work.
  void end(std::int32_t seat, share_ns worked, share_ns now,
           thread_outcome& out);
  /// Records that a waiting thread has stopped waiting, for any reason.
  void give_up(std::int32_t seat, share_ns now, thread_outcome& out);
  /// Frees the processors of the seat's threads, before the seat becomes free.
  void leave(std::int32_t seat);

  /// Admits all threads that may run now, after rules, claims or seats changed.
  void let_in(share_ns now, thread_outcome& out);
  /// Returns when a waiting thread has to call is_let_in() at the latest.
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
