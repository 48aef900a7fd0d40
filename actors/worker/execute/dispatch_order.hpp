// What a call comes behind: the order that CUDA promises between streams, and
// that of a replay, where nothing waits as the program had waited.
#pragma once

#include "actors/worker/execute/dispatch_context.hpp"

#include <cstddef>

namespace vgpu {

/// Makes a stream wait for what it must before anything is enqueued in it.
status join_stream(dispatch_context& on, stream_id stream);
/// Makes every stream of every device wait for what it must, now and not when
/// it is next used: then it would include what waits for the program from now
/// on, and what the program does may be what the streams bring.
status catch_up(dispatch_context& on);

/// Whether a stream of the call's device waits, in a replay, for something that
/// the program had seen end.
inline bool waits_in_replay(const dispatch_context& on, stream_id stream) {
  return on.session.waits.holds({on.slot.ordinal, stream});
}

// A call by which the program learned that work is done is replayed. What the
// program did afterwards, with managed memory and in whatever stream of
// whatever device, comes behind that work again, although nothing here waits.

/// The program learned that the work of a stream is done.
status host_behind_stream(dispatch_context& on, stream_id stream);
/// The program learned that the work of all the device's streams is done.
status host_behind_all(dispatch_context& on);
/// The program learned that an event is reached.
status host_behind_event(dispatch_context& on, event_id event);
/// All that is enqueued from now on comes behind what the host's stream waits
/// for, unless a stream waits for a value. Passes a fault on.
status host_learned(dispatch_context& on, status ok);

} // namespace vgpu
