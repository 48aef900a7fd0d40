// Which of several sessions' threads may work, where a pGPU is threads that the
// host runs on several processors at once.
#pragma once

#include "policies/compute/share.hpp"

namespace vgpu::policy {

/// What a function here changed for others: they must be told.
struct thread_outcome {
  /// Threads of these wait no more,
  seat_set let_in{};
  /// so many, and each of them is to call is_let_in().
  std::array<std::uint16_t, most_seats> woken{};
  /// Threads of these should call go_on() now, and not when it suits them.
  seat_set hurried{};
};

// Each thread of a session is known to the table while it has something to do:
// it runs, or it waits. As many run as there are processors, those first whose
// sessions had least of the device's time beside their weight. Who is not ahead
// of anybody by more than a little is not kept waiting in any case: the host
// then deals out the time for a while, and better than who would have to wake
// threads for it. Who came further ahead has only what processors nobody else
// wants, until it is ahead of nobody: a kernel that has some of its threads'
// processors is slower by more than that, so sessions of different speeds had
// better not share them. So nobody has to know what a session could use: a
// session that uses less than its part is always behind, and served at once,
// and what it leaves the others have.

/// A thread of the seat's has something to do. Whether it runs; else it waits.
bool begin_thread(share_table& table, std::int32_t seat, share_ns now,
                  thread_outcome& out);
/// One that runs has run on a processor for so long since it began, or since
/// this was called last. Whether it goes on; else it waits.
bool go_on(share_table& table, std::int32_t seat, share_ns worked, share_ns now,
           thread_outcome& out);
/// Whether one that waits runs now.
bool is_let_in(share_table& table, std::int32_t seat, share_ns now,
               thread_outcome& out);
/// One that runs has nothing to do any more.
void end_thread(share_table& table, std::int32_t seat, share_ns worked,
                share_ns now, thread_outcome& out);
/// One that waits does so no more, whatever becomes of it.
void give_up(share_table& table, std::int32_t seat, share_ns now,
             thread_outcome& out);

/// Lets in whoever may run now: when rules, claims or seats have changed.
void let_in(share_table& table, share_ns now, thread_outcome& out);
/// When one that waits is to call is_let_in() at the latest.
share_ns look_again(const share_table& table, std::int32_t seat, share_ns now);

} // namespace vgpu::policy
