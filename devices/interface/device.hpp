// What a pGPU is to the rest of the system: the seam between the worker's
// executor and a backend (cpu/, nvidia/).
#pragma once

#include "schema/base/console.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

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

/// What the driver API tells of a device; travels to the program once, with
/// the lease. Attributes are keyed by CUdevice_attribute; one that is absent
/// is CUDA_ERROR_INVALID_VALUE to who asks.
struct properties {
  std::string name;
  std::array<std::byte, 16> uuid{};
  std::uint64_t total_memory = 0; // bytes
  std::map<int, int> attributes;
};

struct kernel_parameter {
  std::uint32_t offset = 0; // bytes from the start of the parameter block
  std::uint32_t size = 0;   // bytes
};

/// A kernel as the driver API describes it.
struct kernel_info {
  std::string name; // mangled, as in the image
  std::vector<kernel_parameter> parameters;
  /// Keyed by CUfunction_attribute (max threads per block, shared, const and
  /// local bytes, registers, PTX and binary version, cache mode, max dynamic
  /// shared bytes, cluster attributes, ...).
  std::map<int, int> attributes;
};

/// A `.global`, `.const` or managed variable of a module.
struct global_info {
  std::string name;
  device_address address = 0;
  std::uint64_t bytes = 0;
  bool managed = false;
};

/// What a module holds. Kernel i of module m is launched as (m, i).
struct module_info {
  std::vector<kernel_info> kernels;
  std::vector<global_info> globals;
  /// Kernels of it call malloc, and the device tells nobody what they have.
  bool hidden_heap = false;
};

/// What a session costs its device's memory beside what it allocates, in bytes.
/// Unset: the device cannot tell.
struct side_memory {
  /// The variables of its modules, and the heap of its kernels' malloc, where
  /// it is known.
  std::optional<std::uint64_t> variables;
  /// Its modules' code, as the device keeps it.
  std::optional<std::uint64_t> code;
  /// That it is there at all.
  std::optional<std::uint64_t> context;
};

struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

struct launch {
  module_id module;
  std::uint32_t kernel = 0;         // index into module_info::kernels
  dim3 grid;                        // blocks
  dim3 block;                       // threads
  dim3 cluster;                     // blocks; {0,0,0} when none is asked for
  std::uint32_t dynamic_shared = 0; // bytes
  bool cooperative = false;
  /// The parameter block: each parameter at its offset.
  std::span<const std::byte> parameters;
};

/// A pitched box of elements; 1D when height and depth are 1. Pitches and
/// width in bytes.
struct extent {
  std::uint64_t width = 0, height = 1, depth = 1;
};
struct pitched {
  device_address address = 0; // device or host-window address
  std::uint64_t pitch = 0;    // bytes from row to row
  std::uint64_t slice = 0;    // bytes from slice to slice
};

/// What can be broken on purpose, for tests and demonstrations.
enum class injected_fault : std::uint8_t {
  lost, // every call and completion fails from now on
  hang, // nothing completes any more
  ecc,  // uncorrectable ECC error
};

/// Called once, from any thread of the device, with CUDA_SUCCESS or the error
/// that the preceding work ended in. Must not block and must not call back
/// into the device.
using completion = std::function<void(CUresult)>;

/// Text that a kernel writes. From any thread of the device.
using printer = std::function<void(console, std::string_view)>;

/// In words, why enqueued work failed. From any thread of the device.
using reporter = std::function<void(std::string_view)>;

/// One session's part of one pGPU: its memory, modules, streams and events.
///
/// Handles are chosen by the caller and are fresh when created. Calls come
/// from one thread; completions run on threads of the device, or on the calling
/// one where they are due already or in a moment. "Enqueue" calls
/// return at once, and run in stream order: after what was enqueued before in
/// the same stream, and, between the legacy stream and blocking streams, after
/// what CUDA's legacy default stream rules say. Different streams run
/// concurrently.
///
/// A fault returned by an enqueue call is a refusal of that call alone. A
/// fault of enqueued work (illegal address, trap, ...) is sticky: from then on
/// error() tells it, later work is not executed, and every completion reports
/// it.
class device {
public:
  virtual ~device() = default;

  virtual const properties& props() const noexcept = 0;

  /// The sticky error, or CUDA_SUCCESS. Thread-safe.
  virtual CUresult error() const noexcept = 0;

  // -- memory -----------------------------------------------------------------

  /// Reserves a vGPU's window; called once, first. Fails when these addresses
  /// are not free on this device.
  virtual status reserve_window(device_address base) = 0;

  /// Backs [address, address + bytes) with memory that is zeroed, or as this
  /// very session left it. Both are multiples of granule_bytes and lie in the
  /// window. CUDA_ERROR_OUT_OF_MEMORY when there is not enough.
  virtual status map(device_address address, std::uint64_t bytes) = 0;

  /// Takes the memory of a mapped range away, after the work enqueued so far
  /// in all streams is done: the call itself does not wait.
  virtual status unmap(device_address address, std::uint64_t bytes) = 0;

  /// Makes [address, address + bytes), host memory of this process at that
  /// very address (the session's host window), usable by kernels and copies.
  virtual status attach_host(device_address address, std::uint64_t bytes) = 0;
  virtual status detach_host(device_address address, std::uint64_t bytes) = 0;

  /// Reads will often go into this memory of the process, which stays as long
  /// as the device. A hint, given at most once.
  virtual void reads_into(std::span<std::byte>) {}

  // -- modules ----------------------------------------------------------------

  /// Loads a fatbin container, cubin or PTX text. Global variables are placed
  /// at or above the window's device_placed_offset, at addresses that depend
  /// only on the loads and unloads before (so that a replay gets the same).
  virtual result<module_info> load_module(module_id id,
                                          std::span<const std::byte> image) = 0;
  virtual status unload_module(module_id id) = 0;

  virtual side_memory beside() const { return {}; }

  /// CU_FUNC_ATTRIBUTE_* that can be set (max dynamic shared, carveout, ...).
  virtual status set_kernel_attribute(module_id id, std::uint32_t kernel,
                                      int attribute, int value) = 0;

  /// How many clusters of a launch of this shape run at once; its parameters
  /// do not matter.
  virtual result<std::uint32_t> active_clusters(const launch& shape) = 0;

  // -- streams and events -----------------------------------------------------

  virtual status create_stream(stream_id id, bool non_blocking,
                               int priority) = 0;
  /// Work enqueued before still runs.
  virtual status destroy_stream(stream_id id) = 0;

  virtual status create_event(event_id id, bool timing) = 0;
  virtual status destroy_event(event_id id) = 0;
  virtual status record_event(event_id id, stream_id stream) = 0;
  /// Work enqueued in `stream` from now on waits for the event's latest
  /// record; at once when it was never recorded.
  virtual status wait_event(stream_id stream, event_id id) = 0;
  /// Whether the latest record is done (true when never recorded).
  virtual result<bool> query_event(event_id id) = 0;
  /// Milliseconds between two completed records.
  virtual result<float> elapsed(event_id from, event_id to) = 0;

  /// `done` runs when all work enqueued in `stream` so far is done; with no
  /// stream, all work in all streams.
  virtual void when_done(std::optional<stream_id> stream, completion done) = 0;
  /// `done` runs when the event's latest record is done.
  virtual void when_recorded(event_id id, completion done) = 0;
  /// Whether all work enqueued in `stream` so far is done.
  virtual bool idle(stream_id stream) = 0;

  // -- work, enqueued ---------------------------------------------------------

  virtual status enqueue_launch(stream_id stream, const launch& what) = 0;

  /// Copies `bytes` to the device when the stream gets there. `owner` keeps
  /// the bytes alive and is dropped after the copy.
  virtual status enqueue_write(stream_id stream, device_address to,
                               std::span<const std::byte> bytes,
                               std::shared_ptr<const void> owner) = 0;
  /// Copies from the device into `bytes`, memory of this process that stays
  /// valid until `done` ran.
  virtual status enqueue_read(stream_id stream, std::span<std::byte> bytes,
                              device_address from, completion done) = 0;
  /// Copies between device (and attached host) addresses; overlapping ranges
  /// are allowed to give any mix of old and new bytes.
  virtual status enqueue_copy(stream_id stream, const pitched& to,
                              const pitched& from, const extent& size) = 0;
  /// Fills rows with an element of 1, 2 or 4 bytes; width in elements.
  virtual status enqueue_fill(stream_id stream, const pitched& to,
                              std::uint32_t value, std::uint32_t element_bytes,
                              const extent& size) = 0;

  /// When the stream gets there, calls `start` with a function that must be
  /// called once, from any thread, to let the stream go on (cuLaunchHostFunc,
  /// whose function runs in the program's process).
  virtual status
  enqueue_host(stream_id stream,
               std::function<void(std::function<void()> go_on)> start) = 0;

  /// Where kernels' text goes; unset, it is dropped.
  virtual void set_printer(printer to) = 0;

  /// Who is told which kernel failed, where and why, by devices that know it;
  /// unset, nobody. Set before work is enqueued.
  virtual void set_reporter(reporter) {} // NOLINT: overriders keep it

  // -- trouble ----------------------------------------------------------------

  virtual void inject(injected_fault what) = 0;
};

} // namespace vgpu::device
