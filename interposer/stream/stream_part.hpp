// The part of the driver's state that belongs to stream/.
#pragma once

#include "interposer/session/state_part.hpp"
#include "interposer/stream/capture_hooks.hpp"
#include "interposer/stream/host_call.hpp"
#include "interposer/stream/stream_event.hpp"

#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

struct context_part;

/// Owns all streams and events for which the program has handles, and the
/// thread that runs its host functions.
struct stream_part : state_part<stream_part> {
  /// Registers with contexts how to make and end their streams.
  explicit stream_part(context_part& contexts);

  handle_table<stream> streams{handle_kind::stream};
  handle_table<event> events{handle_kind::event};
  host_caller host_calls;
  capture_hooks capture;

  /// Counts the streams that the legacy stream does not wait for.
  std::atomic<int> non_blocking{0};
  /// Counts the streams that exist, the hidden ones included.
  std::atomic<int> existing{0};
  /// Holds the latest id of a stream or event; 1 is the legacy stream's.
  std::atomic<std::uint64_t> last_id{1};
};

} // namespace vgpu::interposer
