// The per-thread default streams.
#pragma once

#include "interposer/stream/stream_event.hpp"

namespace vgpu::interposer {

/// Returns the calling thread's own default stream in this context. The first
/// use makes it, and it ends with the thread.
stream& own_stream(context& x);

} // namespace vgpu::interposer
