// The calls in a session's log, one struct each. The interposer translates the
// driver's 672 entry points (catalogue.def) to these.
//
// Encoding, decoding, dispatch and the audit of handles follow from a struct's
// fields() list (call_codec.hpp, actors/worker/execute/audit.hpp). To add a
// call, add a struct here, name it in `all`, and say in
// actors/worker/execute/call_dispatch.hpp what it does.
#pragma once

#include "schema/base/ids.hpp"
#include "schema/base/physical_memory.hpp"
#include "schema/base/shared_resource.hpp"
#include "schema/base/tensor_map_descriptor.hpp"
#include "schema/base/texture_description.hpp"
#include "schema/catalogue/call_fields.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

namespace vgpu::call {

/// Numbers the calls. A number never changes, because another version of this
/// software may read a journal.
enum class number : std::uint16_t {
  mem_alloc = 1,
  mem_free = 2,
  host_alloc = 3,
  host_free = 4,
  image_part = 5,
  module_load = 6,
  module_facts = 7,
  module_unload = 8,
  kernel_attribute = 9,
  launch = 10,
  write = 11,
  read = 12,
  read_host = 13,
  copy = 14,
  fill = 15,
  stream_create = 16,
  stream_destroy = 17,
  event_create = 18,
  event_destroy = 19,
  event_record = 20,
  stream_wait = 21,
  stream_sync = 22,
  device_sync = 23,
  event_sync = 24,
  elapsed = 25,
  host_call = 26,
  host_done = 27,
  array_create = 40,
  array_destroy = 41,
  texture_create = 42,
  texture_known = 43,
  texture_destroy = 44,
  read_managed = 45,
  write_managed = 46,
  memory_create = 47,
  memory_destroy = 48,
  memory_map = 49,
  memory_unmap = 50,
  memory_access = 51,
  wait_value = 52,
  memory_share = 53,
  memory_import = 54,
  event_share = 55,
  event_import = 56,
  event_query = 57,
  active_clusters = 58,
  host_file = 59,
  tensor_map_encode = 60,
  condition_place = 61,
  condition_words = 62,
  placed_share = 63,
  placed_import = 64,
  host_begun = 65,
  shared_bytes = 66,
  peer_wait = 67,
  zero_copy = 68,
  zero_copy_write = 69,
  limit_set = 70,
  stream_window = 71,
  cache_reset = 72,
  limits_reset = 73,
  host_ended = 74,
  time_work = 75,
  part_check = 80,
  host_map = 81,
  late_write = 82,
  late_bytes = 83,
};

// -- memory -------------------------------------------------------------------

/// Allocates device memory (cuMemAlloc and the like). The interposer chooses
/// the address.
struct mem_alloc {
  static constexpr auto id = number::mem_alloc;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

struct mem_free {
  static constexpr auto id = number::mem_free;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

/// Allocates pinned host memory in the session's host window.
struct host_alloc {
  static constexpr auto id = number::host_alloc;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

struct host_free {
  static constexpr auto id = number::host_free;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

/// Says that kernels use this pinned memory in place. If the worker cannot map
/// the program's memory, each side sends its writes to the other from now on.
struct zero_copy {
  static constexpr auto id = number::zero_copy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  device_address address = 0; // of an allocation
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

/// Carries what the program wrote into memory of zero_copy. The payload is
/// `count` changed_line. All kernels see it at once, including running ones. A
/// replay executes it after the work that the program knew to be done.
struct zero_copy_write {
  static constexpr auto id = number::zero_copy_write;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  std::uint64_t count = 0;
  static auto fields(auto& x) { return std::tie(x.count); }
};

// -- managed memory -----------------------------------------------------------

/// Reads the current bytes of device memory, for a host thread that touched
/// managed memory. It waits for earlier write_managed calls and for no stream,
/// because a host function that a stream waits for may touch managed memory.
struct read_managed {
  static constexpr auto id = number::read_managed;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  device_address address = 0;
  std::uint64_t bytes = 0;
  arena_range to{};
  static auto fields(auto& x) { return std::tie(x.address, x.bytes, x.to); }
};

/// Carries what the host wrote into managed memory, as its payload. It waits
/// for no stream, and all work enqueued after it, in any stream, sees it. A
/// replay executes it after the work that the program knew to be done.
struct write_managed {
  static constexpr auto id = number::write_managed;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

// -- memory that the program maps by itself -----------------------------------

/// Makes zeroed physical memory (cuMemCreate). `bytes` is a multiple of
/// granule_bytes.
struct memory_create {
  static constexpr auto id = number::memory_create;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  fresh<memory_id> memory{};
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.memory, x.bytes); }
};

/// Releases physical memory (cuMemRelease). Mapped memory exists until it is
/// unmapped.
struct memory_destroy {
  static constexpr auto id = number::memory_destroy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  ended<memory_id> memory{};
  static auto fields(auto& x) { return std::tie(x.memory); }
};

/// Maps the whole memory to unused addresses, without access (cuMemMap).
struct memory_map {
  static constexpr auto id = number::memory_map;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  live<memory_id> memory{};
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.memory, x.address, x.bytes); }
};

/// Maps pinned memory of host_alloc to unused addresses as well, without access
/// (cuMemMap of memory of the host). memory_unmap removes the mapping, before
/// host_free. All arguments are multiples of granule_bytes.
struct host_map {
  static constexpr auto id = number::host_map;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  device_address host = 0; // in the host window
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.host, x.address, x.bytes); }
};

/// Removes one whole mapping, after all earlier work (cuMemUnmap).
struct memory_unmap {
  static constexpr auto id = number::memory_unmap;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

/// Sets the access of one mapping to a vgpu::memory_access (cuMemSetAccess).
struct memory_access {
  static constexpr auto id = number::memory_access;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  device_address address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t access = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes, x.access); }
};

// -- words for conditional nodes of graphs ------------------------------------

/// Lets kernels set words of this memory by handles. The worker chooses the
/// place from which the handles follow (schema/base/condition_handles.hpp), and
/// answers with it in `value`. Where kernels cannot set words, the answer is
/// CUDA_ERROR_NOT_SUPPORTED.
struct condition_place {
  static constexpr auto id = number::condition_place;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<memory_id> memory{};
  device_address address = 0; // where it is mapped
  static auto fields(auto& x) { return std::tie(x.memory, x.address); }
};

/// Says that the program has handles of this place, which its graphs may hold.
/// It fails on a device whose kernels cannot set words at this place.
struct condition_words {
  static constexpr auto id = number::condition_words;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  live<memory_id> memory{};
  device_address address = 0;
  device_address place = 0;
  static auto fields(auto& x) { return std::tie(x.memory, x.address, x.place); }
};

// -- modules ------------------------------------------------------------------

/// Carries a part of an image (fatbin container, cubin or PTX text). The
/// payload is the bytes from `offset` on. Parts come in order, and after the
/// last one the session knows the image by its digest.
struct image_part {
  static constexpr auto id = number::image_part;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  digest image{};
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  static auto fields(auto& x) { return std::tie(x.image, x.offset, x.total); }
};

/// Loads a module. The answer is ModuleFacts (data.capnp) in the arena range,
/// with their size as `value`. If they do not fit into the range, the module is
/// loaded but nothing is written, and the program sends module_facts with a
/// larger range.
struct module_load {
  static constexpr auto id = number::module_load;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::begins;
  fresh<module_id> module{};
  digest image{};
  arena_range facts{};
  std::span<const std::byte> bytes{}; // schema/base/jit_settings.hpp
  static auto fields(auto& x) { return std::tie(x.module, x.image, x.facts); }
};

/// Compiles a part that is linked later, and keeps nothing. The answer is what
/// the compiler says: its information, or its errors where the call fails.
struct part_check {
  static constexpr auto id = number::part_check;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  digest image{};
  arena_range text{};
  std::span<const std::byte> bytes{}; // schema/base/jit_settings.hpp
  static auto fields(auto& x) { return std::tie(x.image, x.text); }
};

struct module_facts {
  static constexpr auto id = number::module_facts;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<module_id> module{};
  arena_range facts{};
  static auto fields(auto& x) { return std::tie(x.module, x.facts); }
};

struct module_unload {
  static constexpr auto id = number::module_unload;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::retires;
  ended<module_id> module{};
  static auto fields(auto& x) { return std::tie(x.module); }
};

/// Sets a CU_FUNC_ATTRIBUTE_* of a kernel.
struct kernel_attribute {
  static constexpr auto id = number::kernel_attribute;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  live<module_id> module{};
  std::uint32_t kernel = 0; // index in the module's facts
  std::uint32_t attribute = 0;
  std::uint32_t value = 0;
  static auto fields(auto& x) {
    return std::tie(x.module, x.kernel, x.attribute, x.value);
  }
};

// -- work ---------------------------------------------------------------------

struct launch {
  static constexpr auto id = number::launch;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  static constexpr std::uint32_t cooperative = 1;
  // Hints lie behind the parameter block (schema/base/launch_hint.hpp).
  static constexpr std::uint32_t hinted = 2;
  live<stream_id> stream{};
  live<module_id> module{};
  std::uint32_t kernel = 0; // index in the module's facts
  std::uint32_t flags = 0;
  dim3 grid{};
  dim3 block{};
  dim3 cluster{};
  std::uint32_t dynamic_shared = 0;
  std::span<const std::byte> bytes{}; // the parameter block
  static auto fields(auto& x) {
    return std::tie(x.stream, x.module, x.kernel, x.flags, x.grid, x.block,
                    x.cluster, x.dynamic_shared);
  }
};

/// Asks how many clusters of such a launch the device holds at once, which is
/// `value` of the answer (cuOccupancyMaxActiveClusters). Only the device knows
/// how many multiprocessors its groups have.
struct active_clusters {
  static constexpr auto id = number::active_clusters;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<module_id> module{};
  std::uint32_t kernel = 0; // index in the module's facts
  dim3 grid{};
  dim3 block{};
  dim3 cluster{};
  std::uint32_t dynamic_shared = 0;
  static auto fields(auto& x) {
    return std::tie(x.module, x.kernel, x.grid, x.block, x.cluster,
                    x.dynamic_shared);
  }
};

/// Copies from host to device. The payload is the rows without gaps.
struct write {
  static constexpr auto id = number::write;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  live<stream_id> stream{};
  box to{};
  extent size{};
  static auto fields(auto& x) { return std::tie(x.stream, x.to, x.size); }
};

/// Copies to the device, as write does, but the stream stops here until
/// late_bytes brings the bytes. The program sends them when the stream has come
/// here, which a host_call before this call tells it. `size` has one slice, and
/// at most max_payload bytes.
struct late_write {
  static constexpr auto id = number::late_write;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  live<stream_id> stream{};
  box to{};
  extent size{};
  static auto fields(auto& x) { return std::tie(x.stream, x.to, x.size); }
};

/// Carries the bytes of a late_write as its payload, the rows without gaps, and
/// lets its stream continue.
struct late_bytes {
  static constexpr auto id = number::late_bytes;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  std::uint64_t call = 0; // call number of the late_write
  static auto fields(auto& x) { return std::tie(x.call); }
};

/// Copies from device to host. The answer is the rows without gaps, in the
/// arena range.
struct read {
  static constexpr auto id = number::read;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  box from{};
  extent size{};
  arena_range to{};
  static auto fields(auto& x) {
    return std::tie(x.stream, x.from, x.size, x.to);
  }
};

/// Copies from device to pinned host memory. The slot is answered when the
/// bytes have arrived. If the slot no longer waits during a replay, the copy
/// does not overwrite the program's memory.
struct read_host {
  static constexpr auto id = number::read_host;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  box to{}; // in the host window
  box from{};
  extent size{};
  static auto fields(auto& x) {
    return std::tie(x.stream, x.to, x.from, x.size);
  }
};

struct copy {
  static constexpr auto id = number::copy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  live<stream_id> stream{};
  box to{};
  box from{};
  extent size{};
  static auto fields(auto& x) {
    return std::tie(x.stream, x.to, x.from, x.size);
  }
};

struct fill {
  static constexpr auto id = number::fill;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  live<stream_id> stream{};
  box to{};
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1; // 1, 2 or 4
  extent size{};                   // width in elements
  static auto fields(auto& x) {
    return std::tie(x.stream, x.to, x.value, x.element_bytes, x.size);
  }
};

// -- streams and events -------------------------------------------------------

struct stream_create {
  /// Is the value of `non_blocking` for a stream of the interposer's own, which
  /// follows other streams by events alone.
  static constexpr std::uint32_t apart = 2;
  static constexpr auto id = number::stream_create;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  fresh<stream_id> stream{};
  std::uint32_t non_blocking = 0;
  std::int32_t priority = 0;
  static auto fields(auto& x) {
    return std::tie(x.stream, x.non_blocking, x.priority);
  }
};

struct stream_destroy {
  static constexpr auto id = number::stream_destroy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  ended<stream_id> stream{};
  static auto fields(auto& x) { return std::tie(x.stream); }
};

struct event_create {
  static constexpr auto id = number::event_create;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  fresh<event_id> event{};
  std::uint32_t timing = 1;
  static auto fields(auto& x) { return std::tie(x.event, x.timing); }
};

struct event_destroy {
  static constexpr auto id = number::event_destroy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  ended<event_id> event{};
  static auto fields(auto& x) { return std::tie(x.event); }
};

struct event_record {
  static constexpr auto id = number::event_record;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  live<event_id> event{};
  live<stream_id> stream{};
  static auto fields(auto& x) { return std::tie(x.event, x.stream); }
};

struct stream_wait {
  static constexpr auto id = number::stream_wait;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  live<event_id> event{};
  static auto fields(auto& x) { return std::tie(x.stream, x.event); }
};

/// Does what stream_wait does, for an event of another device of the session.
struct peer_wait {
  static constexpr auto id = number::peer_wait;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  std::uint64_t event = 0; // an event_id of `device`
  std::uint8_t device = 0;
  static auto fields(auto& x) { return std::tie(x.stream, x.event, x.device); }
};

/// Is answered when all work enqueued in the stream so far is done.
struct stream_sync {
  static constexpr auto id = number::stream_sync;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  static auto fields(auto& x) { return std::tie(x.stream); }
};

/// Is answered when all work enqueued on the device so far is done.
struct device_sync {
  static constexpr auto id = number::device_sync;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  static auto fields(auto&) { return std::tuple<>(); }
};

/// Is answered when the event's latest record is done.
struct event_sync {
  static constexpr auto id = number::event_sync;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<event_id> event{};
  static auto fields(auto& x) { return std::tie(x.event); }
};

/// Asks for the milliseconds between two completed records. `value` of the
/// answer holds the bits of a float.
struct elapsed {
  static constexpr auto id = number::elapsed;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<event_id> from{};
  live<event_id> to{};
  static auto fields(auto& x) { return std::tie(x.from, x.to); }
};

/// Enqueues a host function in a stream. When the stream reaches it, the slot
/// changes from `waiting` to `called`, the program runs the function, and then
/// appends host_done.
struct host_call {
  static constexpr auto id = number::host_call;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  static auto fields(auto& x) { return std::tie(x.stream); }
};

/// Is appended before the program runs the host function. The function may
/// signal other threads of the program, so their later calls depend on the
/// stream's work before host_call. A replay, which runs no host function, needs
/// this call to keep that order.
struct host_begun {
  static constexpr auto id = number::host_begun;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  std::uint64_t call = 0; // call number of the host_call
  static auto fields(auto& x) { return std::tie(x.call); }
};

struct host_done {
  static constexpr auto id = number::host_done;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  std::uint64_t call = 0; // call number of the host_call
  static auto fields(auto& x) { return std::tie(x.call); }
};

/// Does what host_done does, after the work of the stream `after`. The program
/// had seen that work end, and the stream's next work may use it. A replay has
/// to wait for it.
struct host_ended {
  static constexpr auto id = number::host_ended;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  std::uint64_t call = 0; // call number of the host_call
  live<stream_id> after{};
  static auto fields(auto& x) { return std::tie(x.call, x.after); }
};

/// Makes a stream wait until a word of device memory holds a value
/// (schema/base/awaited_value.hpp), and then until the program appends
/// host_done. As with host_call, the slot changes from `waiting` to `called`.
/// So a replay knows from the log that the wait was over, even if the word has
/// changed since.
struct wait_value {
  static constexpr auto id = number::wait_value;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  device_address address = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
  std::uint32_t test = 0; // a vgpu::value_test
  static auto fields(auto& x) {
    return std::tie(x.stream, x.address, x.value, x.bytes, x.test);
  }
};

// -- memory and events that sessions share ------------------------------------
//
// Neither a state nor a journal can describe these, because a replay cannot
// order a session's writes with those of the other session. A session that
// shares loses its protection.

/// Shares an allocation (cuIpcGetMemHandle): from now on a session that knows
/// the secret may map it. `value` of the answer is a share_layout, the same
/// each time.
struct memory_share {
  static constexpr auto id = number::memory_share;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  device_address address = 0;
  std::uint64_t bytes = 0;
  share_secret session{};
  std::uint64_t serial = 0;
  static auto fields(auto& x) {
    return std::tie(x.address, x.bytes, x.session, x.serial);
  }
};

/// Maps the granules that contain memory shared by another session, for reading
/// and writing (cuIpcOpenMemHandle). They count against the other session's
/// quota as long as that session exists. The answer is CUDA_ERROR_OUT_OF_MEMORY
/// for a session beyond its quota. memory_unmap and memory_destroy end it.
struct memory_import {
  static constexpr auto id = number::memory_import;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  fresh<memory_id> memory{};
  device_address address = 0;
  std::uint64_t bytes = 0;
  share_name what{};
  std::uint32_t host = 0; // share_layout::host
  static auto fields(auto& x) {
    return std::tie(x.memory, x.address, x.bytes, x.what, x.host);
  }
};

/// Does what memory_share does, for memory that the program maps by itself
/// (cuMemExportToShareableHandle).
struct placed_share {
  static constexpr auto id = number::placed_share;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  live<memory_id> memory{};
  share_secret session{};
  std::uint64_t serial = 0;
  static auto fields(auto& x) {
    return std::tie(x.memory, x.session, x.serial);
  }
};

/// Names memory that another session shares, so that the program can map it
/// like memory of memory_create (cuMemImportFromShareableHandle).
struct placed_import {
  static constexpr auto id = number::placed_import;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  fresh<memory_id> memory{};
  std::uint64_t bytes = 0;
  share_name what{};
  std::uint32_t host = 0; // share_layout::host
  static auto fields(auto& x) {
    return std::tie(x.memory, x.bytes, x.what, x.host);
  }
};

/// Asks how many bytes count here only because of other sessions, which is
/// `value` of the answer. They are memory that this session freed while another
/// one still has it, and memory of an ended session that counts here because
/// this session still has it.
struct shared_bytes {
  static constexpr auto id = number::shared_bytes;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  static auto fields(auto&) { return std::tuple<>(); }
};

/// Maps the pages of a file that the program has mapped and registered into the
/// host window, in the program and in the worker, so that kernels can use them.
/// host_free ends it. The log does not contain what other processes write to
/// the file. The program must be on the worker's host: `file` is a descriptor
/// of `process`, and `control` its descriptor of this session's control area,
/// by which the worker verifies that the process is the program.
struct host_file {
  static constexpr auto id = number::host_file;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  device_address address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0; // in the file
  std::uint32_t process = 0;
  std::uint32_t control = 0;
  std::uint32_t file = 0;
  static auto fields(auto& x) {
    return std::tie(x.address, x.bytes, x.offset, x.process, x.control, x.file);
  }
};

/// Shares an event (cuIpcGetEventHandle). `value` of the answer is a
/// share_layout with nothing but a host.
struct event_share {
  static constexpr auto id = number::event_share;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  live<event_id> event{};
  share_secret session{};
  std::uint64_t serial = 0;
  static auto fields(auto& x) { return std::tie(x.event, x.session, x.serial); }
};

/// Opens an event that another session shares (cuIpcOpenEventHandle).
/// event_destroy ends it in this session only.
struct event_import {
  static constexpr auto id = number::event_import;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  fresh<event_id> event{};
  share_name what{};
  std::uint32_t host = 0;
  static auto fields(auto& x) { return std::tie(x.event, x.what, x.host); }
};

/// Is answered at once: CUDA_SUCCESS if the event's latest record is done, else
/// CUDA_ERROR_NOT_READY. The answer also shows that all earlier calls were
/// executed, so that another process can rely on them.
struct event_query {
  static constexpr auto id = number::event_query;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<event_id> event{};
  static auto fields(auto& x) { return std::tie(x.event); }
};

// -- limits and hints ---------------------------------------------------------

/// Sets a CUlimit of the device (cuCtxSetLimit). The answer is the device's
/// error where it refuses, for instance another heap once kernels have
/// allocated.
struct limit_set {
  static constexpr auto id = number::limit_set;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::alters;
  std::uint32_t limit = 0;
  std::uint64_t value = 0;
  static auto fields(auto& x) { return std::tie(x.limit, x.value); }
};

/// Brings back the limits that the device had at first, with an empty heap for
/// kernels. The program's last context on the device has ended, and with it all
/// modules and work.
struct limits_reset {
  static constexpr auto id = number::limits_reset;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  static auto fields(auto&) { return std::tuple<>(); }
};

/// Says whether the worker tells when it executes the session's work from now
/// on (schema/log/work_times.hpp). The call concerns all devices.
struct time_work {
  static constexpr auto id = number::time_work;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  std::uint32_t on = 0; // not 0: it does
  static auto fields(auto& x) { return std::tie(x.on); }
};

/// Sets the access-policy window of a stream (cuStreamSetAttribute). It is a
/// hint: devices without such caches ignore it. Work enqueued from now on has
/// the window.
struct stream_window {
  static constexpr auto id = number::stream_window;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  live<stream_id> stream{};
  device_address base = 0;
  std::uint64_t bytes = 0;
  std::uint32_t ratio = 0; // the bits of a float
  std::uint32_t hit = 0;   // a CUaccessProperty
  std::uint32_t miss = 0;  // a CUaccessProperty
  static auto fields(auto& x) {
    return std::tie(x.stream, x.base, x.bytes, x.ratio, x.hit, x.miss);
  }
};

/// Makes all lines of the cache that persist ordinary ones
/// (cuCtxResetPersistingL2Cache). It is a hint.
struct cache_reset {
  static constexpr auto id = number::cache_reset;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  static auto fields(auto&) { return std::tuple<>(); }
};

// -- arrays, textures and surfaces --------------------------------------------

/// Makes a CUDA array or mipmapped array. The interposer chooses the address.
/// Copies name elements by addresses in the layout of layout_of(), whose size
/// is `bytes`. Kernels reach elements by textures and surfaces only.
struct array_create {
  static constexpr auto id = number::array_create;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  fresh<array_id> array{};
  device_address address = 0;
  std::uint64_t bytes = 0;
  array_shape shape{};
  static auto fields(auto& x) {
    return std::tie(x.array, x.address, x.bytes, x.shape);
  }
};

struct array_destroy {
  static constexpr auto id = number::array_destroy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  ended<array_id> array{};
  static auto fields(auto& x) { return std::tie(x.array); }
};

/// Makes a texture or surface object. `value` of the answer is the 64-bit value
/// by which kernels name it. On some devices only the driver can choose it.
struct texture_create {
  static constexpr auto id = number::texture_create;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::begins;
  fresh<texture_id> texture{};
  texture_spec what{};
  static auto fields(auto& x) { return std::tie(x.texture, x.what); }
};

/// Says that the program has this value, and may have stored it anywhere. It
/// fails in a replay on a device that gives the object another value.
struct texture_known {
  static constexpr auto id = number::texture_known;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  live<texture_id> texture{};
  std::uint64_t value = 0;
  static auto fields(auto& x) { return std::tie(x.texture, x.value); }
};

struct texture_destroy {
  static constexpr auto id = number::texture_destroy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  ended<texture_id> texture{};
  static auto fields(auto& x) { return std::tie(x.texture); }
};

// -- tensor maps --------------------------------------------------------------

/// Makes a tensor map (cuTensorMapEncodeTiled and the like). The answer is the
/// driver's bytes in the arena range. The program owns them and they name
/// nothing but an address, so a state keeps nothing of this call.
struct tensor_map_encode {
  static constexpr auto id = number::tensor_map_encode;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  tensor_map_spec what{};
  arena_range to{};
  static auto fields(auto& x) { return std::tie(x.what, x.to); }
};

using all = std::tuple<
    mem_alloc, mem_free, host_alloc, host_free, zero_copy, zero_copy_write,
    image_part, module_load, part_check, module_facts, module_unload,
    kernel_attribute, launch, active_clusters, write, late_write, late_bytes,
    read, read_host, copy, fill, stream_create, stream_destroy, event_create,
    event_destroy, event_record, stream_wait, peer_wait, stream_sync,
    device_sync, event_sync, elapsed, host_call, host_begun, host_done,
    host_ended, array_create, array_destroy, texture_create, texture_known,
    texture_destroy, read_managed, write_managed, memory_create, memory_destroy,
    memory_map, memory_unmap, memory_access, host_map, wait_value, memory_share,
    memory_import, event_share, event_import, event_query, host_file,
    tensor_map_encode, condition_place, condition_words, placed_share,
    placed_import, shared_bytes, limit_set, limits_reset, stream_window,
    cache_reset, time_work>;

template <class Call>
concept decided = std::same_as<decltype(Call::lasting), const lasts>;
static_assert(
    []<class... Calls>(std::tuple<Calls...>*) {
      return (decided<Calls> && ...);
    }(static_cast<all*>(nullptr)),
    "a call does not say what lasts of it");

} // namespace vgpu::call
