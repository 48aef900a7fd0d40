// The order of a call after earlier work: the order that CUDA promises between
// streams, and that of a replay, which does not wait where the program did.
#pragma once

#include "actors/worker/execute/dispatch_context.hpp"

#include <cstddef>

namespace vgpu {

/// Makes a stream wait for the work that must precede anything enqueued in it.
status join_stream(dispatch_context& on, stream_id stream);
/// Makes every stream of every device wait for the work that must precede its
/// next use, where that is work of the program's streams. Doing this at the
/// next use would be too late: the work would then include waits for the
/// program, and the program may wait for these streams.
status catch_up(dispatch_context& on);
/// Makes a new stream wait for the work that must precede anything enqueued in
/// it.
status begin_stream(dispatch_context& on, stream_id stream);

// These are for replayed calls by which the program learned that work is done.
// What the program did afterwards, with managed memory and in any stream of any
// device, must follow that work again, although nothing waits here.

/// Orders later work after a stream's work, which the program knew to be done.
status host_behind_stream(dispatch_context& on, stream_id stream);
/// Orders later work after the work of all the device's streams.
status host_behind_all(dispatch_context& on);
/// Orders later work after an event, which the program knew to be reached.
status host_behind_event(dispatch_context& on, event_id event);
/// Orders later work after events that a function's end shows to be reached.
status host_behind_known(dispatch_context& on, const known_work::freed& x);
/// Orders all later work after what the host's stream waits for. Returns `ok`
/// if that is a fault.
status host_learned(dispatch_context& on, status ok);

} // namespace vgpu
