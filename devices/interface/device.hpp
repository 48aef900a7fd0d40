// The interface between the worker's executor and a backend (cpu/, nvidia/),
// which drives one kind of pGPU.
#pragma once

#include "schema/base/console.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/injected_fault.hpp"
#include "schema/base/jit_settings.hpp"
#include "schema/base/launch_hint.hpp"

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu::device {

/// Holds the properties of a device that the driver API reports. They travel to
/// the program once, with the lease. Attributes are keyed by
/// CUdevice_attribute; a query of an absent one returns
/// CUDA_ERROR_INVALID_VALUE.
struct properties {
  std::string name;
  std::array<std::byte, 16> uuid{};
  std::uint64_t total_memory = 0; // bytes
  std::map<int, int> attributes;
};

/// Says where one kernel parameter lies (CUDA driver API, cuFuncGetParamInfo).
struct kernel_parameter {
  std::uint32_t offset = 0; // bytes from the start of the parameter block
  std::uint32_t size = 0;   // bytes
};

/// Describes a kernel as the driver API does.
struct kernel_info {
  std::string name; // mangled, as in the image
  std::vector<kernel_parameter> parameters;
  /// The attributes are keyed by CUfunction_attribute: max threads per block,
  /// shared, const and local bytes, registers, PTX and binary version, cache
  /// mode, max dynamic shared bytes, cluster attributes and so on.
  std::map<int, int> attributes;
};

/// Describes a `.global`, `.const` or managed variable of a module.
struct global_info {
  std::string name;
  device_address address = 0;
  std::uint64_t bytes = 0;
  bool managed = false;
};

/// Describes the contents of a module. Kernel i of module m is launched as (m,
/// i).
struct module_info {
  std::vector<kernel_info> kernels;
  std::vector<global_info> globals;
  /// The module's kernels call malloc, and the device does not report how much
  /// memory that heap takes.
  bool hidden_heap = false;
  /// Holds the compiler's information, in the driver's words.
  std::string log;
};

/// Holds the device memory, in bytes, that a session costs in addition to its
/// allocations. A member without a value is unknown to the device.
struct side_memory {
  /// The variables of the session's modules take this much, with the heap of
  /// the kernels' malloc where the device knows its size.
  std::optional<std::uint64_t> variables;
  /// The code of the session's modules takes this much.
  std::optional<std::uint64_t> code;
  /// The session's context takes this much.
  std::optional<std::uint64_t> context;
};

/// Holds numbers of blocks or threads in three dimensions.
struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// Describes one kernel launch (CUDA driver API, cuLaunchKernelEx).
struct launch {
  module_id module;
  std::uint32_t kernel = 0;         // index into module_info::kernels
  dim3 grid;                        // blocks
  dim3 block;                       // threads
  dim3 cluster;                     // blocks; {0,0,0} when none is asked for
  std::uint32_t dynamic_shared = 0; // bytes
  bool cooperative = false;
  /// The parameter block holds each parameter at its offset.
  std::span<const std::byte> parameters;
  /// A device may ignore each of these.
  std::span<const launch_hint> hints = {};
};

/// Holds the size of a pitched box. `width` is in bytes, except for
/// enqueue_fill(), where it is in elements. A box is one-dimensional when
/// height and depth are 1.
struct extent {
  std::uint64_t width = 0, height = 1, depth = 1;
};
/// Says where a pitched box lies in memory.
struct pitched {
  device_address address = 0; // device or host-window address
  std::uint64_t pitch = 0;    // bytes from row to row
  std::uint64_t slice = 0;    // bytes from slice to slice
};

/// A completion runs once, on any thread of the device, with CUDA_SUCCESS or
/// the error of the preceding work. It must not block and must not call back
/// into the device.
using completion = std::function<void(CUresult)>;

/// A printer takes text that a kernel writes. Any thread of the device calls
/// it.
using printer = std::function<void(console, std::string_view)>;

/// A reporter takes a message that says why enqueued work failed. Any thread of
/// the device calls it.
using reporter = std::function<void(std::string_view)>;

/// A device is one session's part of one pGPU: its memory, modules, streams and
/// events.
///
/// The caller chooses handles and never reuses one. One thread makes all calls
/// that are not marked thread-safe. Completions run on threads of the device,
/// or on the calling thread where they are due already or within a moment.
///
/// The "enqueue" calls return at once. Their work runs in stream order: after
/// the work enqueued earlier in the same stream and, between the legacy stream
/// and blocking streams, as CUDA's rules for the legacy default stream say
/// (CUDA driver API, "Stream synchronization behavior"). Different streams run
/// concurrently.
///
/// A fault that an enqueue call returns refuses that call alone. A fault of
/// enqueued work (illegal address, trap and so on) is sticky: error() returns
/// it from then on, later work is not executed, and every completion reports
/// it.
class device {
public:
  virtual ~device() = default;

  /// Returns the properties of the device. Thread-safe.
  virtual const properties& props() const noexcept = 0;

  /// Returns the sticky error, or CUDA_SUCCESS. Thread-safe.
  virtual CUresult error() const noexcept = 0;

  // -- memory -----------------------------------------------------------------

  /// Reserves a vGPU's window. The caller makes this call first, and once.
  /// Fails when these addresses are not free on this device.
  virtual status reserve_window(device_address base) = 0;

  /// Backs [address, address + bytes) with memory that is zeroed, or still
  /// holds what this same session wrote there. Both arguments are multiples of
  /// granule_bytes, and the range lies in the window. Returns
  /// CUDA_ERROR_OUT_OF_MEMORY when there is not enough memory.
  virtual status map(device_address address, std::uint64_t bytes) = 0;

  /// Unmaps a mapped range once the work enqueued so far in all streams is
  /// done. The call itself does not wait.
  virtual status unmap(device_address address, std::uint64_t bytes) = 0;

  /// Lets kernels and copies use [address, address + bytes), which is host
  /// memory of this process at the same address: the session's host window.
  virtual status attach_host(device_address address, std::uint64_t bytes) = 0;
  /// Reverses attach_host() for this range.
  virtual status detach_host(device_address address, std::uint64_t bytes) = 0;

  /// Announces that reads will often go into this memory of the process, which
  /// stays valid as long as the device. The call is a hint, and is made at most
  /// once.
  virtual void reads_into(std::span<std::byte>) {}

  // -- modules ----------------------------------------------------------------

  /// Loads a fatbin container, a cubin or PTX text. A backend that places
  /// global variables itself does so at or above the window's
  /// device_placed_offset. Their addresses depend only on the earlier loads and
  /// unloads, so that a replay gets the same ones. The text of a fault is the
  /// compiler's error log.
  virtual result<module_info> load_module(module_id id,
                                          std::span<const std::byte> image,
                                          const jit_settings& how) = 0;
  result<module_info> load_module(module_id id,
                                  std::span<const std::byte> image) {
    return load_module(id, image, {});
  }
  /// Compiles a part that is linked later, and keeps nothing of it. Returns the
  /// compiler's information, or a fault whose text is its error log.
  virtual result<std::string> check_part(std::span<const std::byte> image,
                                         const jit_settings& how) = 0;
  /// Unloads a module. Work enqueued before still runs.
  virtual status unload_module(module_id id) = 0;

  /// Returns the memory that the session costs in addition to its allocations.
  virtual side_memory beside() const { return {}; }

  /// Sets an attribute of a kernel. `attribute` is one of the
  /// CU_FUNC_ATTRIBUTE_* values that can be set, such as max dynamic shared
  /// bytes or the carveout.
  virtual status set_kernel_attribute(module_id id, std::uint32_t kernel,
                                      int attribute, int value) = 0;

  /// Returns how many clusters of a launch of this shape can run at the same
  /// time. The launch's parameters do not matter.
  virtual result<std::uint32_t> active_clusters(const launch& shape) = 0;

  // -- streams and events -----------------------------------------------------

  /// Creates a stream (CUDA driver API, cuStreamCreateWithPriority).
  virtual status create_stream(stream_id id, bool non_blocking,
                               int priority) = 0;
  /// Destroys a stream. Work enqueued before still runs.
  virtual status destroy_stream(stream_id id) = 0;

  /// Creates an event. elapsed() accepts only events with `timing`.
  virtual status create_event(event_id id, bool timing) = 0;
  /// Destroys an event.
  virtual status destroy_event(event_id id) = 0;
  /// Records the event after the work enqueued so far in `stream`.
  virtual status record_event(event_id id, stream_id stream) = 0;
  /// Lets work enqueued in `stream` from now on wait for the event's latest
  /// record. The work does not wait where the event was never recorded.
  virtual status wait_event(stream_id stream, event_id id) = 0;
  /// Tells whether the event's latest record is done. The answer is true where
  /// the event was never recorded.
  virtual result<bool> query_event(event_id id) = 0;
  /// Returns the milliseconds between two completed records.
  virtual result<float> elapsed(event_id from, event_id to) = 0;

  /// Calls `done` when all work enqueued in `stream` so far is done, or all
  /// work in all streams where no stream is given.
  virtual void when_done(std::optional<stream_id> stream, completion done) = 0;
  /// Calls `done` when the event's latest record is done.
  virtual void when_recorded(event_id id, completion done) = 0;
  /// Tells whether all work enqueued in `stream` so far is done.
  virtual bool idle(stream_id stream) = 0;

  // -- work, enqueued ---------------------------------------------------------

  /// Enqueues a kernel launch.
  virtual status enqueue_launch(stream_id stream, const launch& what) = 0;

  /// Copies `bytes` to the device when the stream reaches this point. `owner`
  /// keeps the bytes alive; the device holds it for as long as it needs them.
  virtual status enqueue_write(stream_id stream, device_address to,
                               std::span<const std::byte> bytes,
                               std::shared_ptr<const void> owner) = 0;
  /// Copies from the device into `bytes`, memory of this process that stays
  /// valid until `done` has run.
  virtual status enqueue_read(stream_id stream, std::span<std::byte> bytes,
                              device_address from, completion done) = 0;
  /// Copies between addresses of the device or of attached host memory. Where
  /// the ranges overlap, the result may be any mix of old and new bytes.
  virtual status enqueue_copy(stream_id stream, const pitched& to,
                              const pitched& from, const extent& size) = 0;
  /// Fills rows with an element of 1, 2 or 4 bytes. The width in `size` counts
  /// elements.
  virtual status enqueue_fill(stream_id stream, const pitched& to,
                              std::uint32_t value, std::uint32_t element_bytes,
                              const extent& size) = 0;

  /// Calls `start` when the stream reaches this point, with a function that
  /// lets the stream continue and that must be called once, from any thread.
  /// Serves cuLaunchHostFunc, whose function runs in the program's process.
  virtual status
  enqueue_host(stream_id stream,
               std::function<void(std::function<void()> go_on)> start) = 0;

  /// Sets the printer, which gets the text that kernels write. Without a
  /// printer the device drops this text.
  virtual void set_printer(printer to) = 0;

  /// Sets the reporter of failures. A device that knows which kernel failed,
  /// where and why calls it. The caller sets it before it enqueues work.
  virtual void set_reporter(reporter) {} // NOLINT: overriders keep it

  // -- faults on purpose ------------------------------------------------------

  /// Causes this fault on purpose, for tests.
  virtual void inject(injected_fault what) = 0;
};

} // namespace vgpu::device
