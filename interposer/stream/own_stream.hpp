// The default streams that threads have of their own.
#pragma once

#include "interposer/stream/stream_event.hpp"

namespace vgpu::interposer {

/// Gives the calling thread's own default stream in this context. It is made on
/// first use, and retired with the thread.
stream& own_stream(context& x);

} // namespace vgpu::interposer
