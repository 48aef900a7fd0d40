// Records when a session got its memory, and how long swapping it out and in
// took, for memory swapping.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/records/records.hpp"

namespace vgpu {

/// Records that the session was swapped out for others.
void note_swapped_out(session_record& x, time_point now, double milliseconds);

/// Records that the session has a worker, and its memory from now on, unless
/// its client reported an earlier time.
void note_resident(session_record& x, time_point now);

/// Records that the session was restored and has its memory.
void note_swapped_in(session_record& x, time_point now, double milliseconds);

/// Takes over a client's report of times that an earlier manager measured.
void take_over_swap_times(session_record& x, time_point now,
                          const control::memory_turns& told);

} // namespace vgpu
