// A piece of a traced program's work, or a call, as libcuda.so.1 describes it
// to libcupti.so and to the file of a trace.
#pragma once

#include <cstdint>

namespace vgpu::interposer {

enum class activity_kind : std::uint32_t {
  kernel,
  copy,
  fill,
  wait, // the program waited for work, or told a stream to wait
  call, // an entry point was called
};

/// Says what kind of memory a copy reads or writes.
enum class memory_place : std::uint32_t { pageable, pinned, device };

/// Says what an activity of kind `wait` waits for.
enum class wait_kind : std::uint32_t {
  event = 1,
  stream_for_event = 2,
  stream = 3,
  context = 4,
};

/// Describes an activity. Times are nanoseconds since the epoch, by the clock
/// of the program's host. The texts live as long as the process.
struct activity {
  activity_kind kind = activity_kind::call;
  /// Joins a call with the work that it appended. Never 0.
  std::uint32_t correlation = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;

  /// Is when the program called the entry point.
  std::uint64_t called = 0;
  /// These are the times of work_times (schema/log/work_times.hpp). A wait and
  /// a call have only the last two.
  std::uint64_t received = 0, submitted = 0, reached = 0;
  std::uint64_t began = 0, ended = 0;

  /// Names the kernel, as in its image, or the entry point.
  const char* name = "";

  // -- of a kernel
  std::uint32_t grid[3] = {}, block[3] = {}, cluster[3] = {};
  std::uint32_t dynamic_shared = 0, static_shared = 0; // bytes of a block
  std::uint32_t local = 0;                             // bytes of a thread
  std::uint32_t registers = 0;                         // of a thread

  // -- of a copy or a memset
  std::uint64_t bytes = 0;
  memory_place from = memory_place::device, to = memory_place::device;
  std::uint32_t value = 0;
  std::uint32_t from_device = 0; // of a copy between devices
  /// Is not 0 for work that the program did not wait for in its call.
  std::uint32_t is_async = 0;

  // -- of a wait
  wait_kind waits_for = wait_kind::context;

  // -- of a call
  std::uint32_t result = 0; // a CUresult
  /// Points to the arguments as CUPTI's callbacks show them, during the call,
  /// or is null.
  const void* arguments = nullptr;
  /// Is the CUcontext that was current.
  void* context_handle = nullptr;
  /// Is what the listener wrote there as the call began. The call's work has
  /// it too.
  std::uint64_t mark = 0;
  /// Is not 0 for work of a graph.
  std::uint32_t in_graph = 0;
};

/// Is the stream of a wait for all streams, or for one that is not known.
inline constexpr std::uint32_t no_stream = ~std::uint32_t{0};

} // namespace vgpu::interposer
