// When a session got its memory, and how long swapping it out and in took: what
// memory swapping goes by, as it happens.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/records/records.hpp"

namespace vgpu {

/// The session was swapped out for others, in so many milliseconds.
void note_swapped_out(session_record& x, time_point now, double milliseconds);

/// The session has a worker, and its memory from now on, unless its client has
/// told since when.
void note_resident(session_record& x, time_point now);

/// The session was restored, in so many milliseconds, and has its memory.
void note_swapped_in(session_record& x, time_point now, double milliseconds);

/// A client tells of times that were an earlier manager's.
void take_over_swap_times(session_record& x, time_point now,
                          const control::memory_turns& told);

} // namespace vgpu
