// The calls that travel in a session's log: one struct each. The 672 entry
// points of the driver (catalogue.def) come down to these.
//
// A struct's fields() list is all there is to say of a call: encoding,
// decoding, dispatch and the audit of handles are derived from it
// (call_codec.hpp, actors/worker/execute/audit.hpp). Adding a call is adding a
// struct here, naming it in `all`, and saying in the worker's executor what it
// does.
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

/// Fixed for ever: a journal may be read by another version of this software.
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
};

// -- memory
// ---------------------------------------------------------------------

/// cuMemAlloc and its kin. The address is the interposer's choice.
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

/// Pinned host memory in the session's host window.
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

/// Kernels use this pinned memory where it is. Where the worker has no part in
/// the program's memory, what either side writes of it is told to the other
/// from here on.
struct zero_copy {
  static constexpr auto id = number::zero_copy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  device_address address = 0; // of an allocation
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

/// What the program wrote into such memory: `count` of changed_line, the
/// payload. Kernels find it at once, those that run already as well. A replay
/// puts it behind the work that the program knew to be done.
struct zero_copy_write {
  static constexpr auto id = number::zero_copy_write;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  std::uint64_t count = 0;
  static auto fields(auto& x) { return std::tie(x.count); }
};

// -- managed memory
// -------------------------------------------------------------

/// Bytes of device memory as they are, for a host that touched managed memory.
/// Comes behind what the host wrote before (write_managed) and behind nothing
/// else: a host function that a stream waits for may touch it.
struct read_managed {
  static constexpr auto id = number::read_managed;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  device_address address = 0;
  std::uint64_t bytes = 0;
  arena_range to{};
  static auto fields(auto& x) { return std::tie(x.address, x.bytes, x.to); }
};

/// What the host wrote into managed memory: the payload. It waits for no
/// stream, and whatever is enqueued after it, in any stream, finds it. A replay
/// puts it behind the work that the program knew to be done.
struct write_managed {
  static constexpr auto id = number::write_managed;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

// -- memory that the program places by itself
// -----------------------------------

/// cuMemCreate. Zeroed; a multiple of granule_bytes.
struct memory_create {
  static constexpr auto id = number::memory_create;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  fresh<memory_id> memory{};
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.memory, x.bytes); }
};

/// cuMemRelease. Where it is mapped the memory stays until it is unmapped.
struct memory_destroy {
  static constexpr auto id = number::memory_destroy;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  ended<memory_id> memory{};
  static auto fields(auto& x) { return std::tie(x.memory); }
};

/// cuMemMap: the whole memory, at addresses where nothing is. No access yet.
struct memory_map {
  static constexpr auto id = number::memory_map;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::begins;
  live<memory_id> memory{};
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.memory, x.address, x.bytes); }
};

/// cuMemUnmap of one mapping, as it was made. Behind all work before it.
struct memory_unmap {
  static constexpr auto id = number::memory_unmap;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::ends;
  device_address address = 0;
  std::uint64_t bytes = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes); }
};

/// cuMemSetAccess of one mapping: a vgpu::memory_access.
struct memory_access {
  static constexpr auto id = number::memory_access;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  device_address address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t access = 0;
  static auto fields(auto& x) { return std::tie(x.address, x.bytes, x.access); }
};

// -- words by which graphs choose
// --------------------------------------------

/// From now on kernels set words of this memory, by handles that a place
/// gives them (schema/base/condition_handles.hpp): `value` of the answer, which
/// the worker chooses. CUDA_ERROR_NOT_SUPPORTED where kernels cannot.
struct condition_place {
  static constexpr auto id = number::condition_place;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<memory_id> memory{};
  device_address address = 0; // where it is mapped
  static auto fields(auto& x) { return std::tie(x.memory, x.address); }
};

/// The program has handles of this place, and its graphs may have them
/// anywhere: a device on which kernels cannot set words there fails here.
struct condition_words {
  static constexpr auto id = number::condition_words;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::alters;
  live<memory_id> memory{};
  device_address address = 0;
  device_address place = 0;
  static auto fields(auto& x) { return std::tie(x.memory, x.address, x.place); }
};

// -- modules
// --------------------------------------------------------------------

/// A part of an image (fatbin container, cubin, PTX text); the payload is the
/// bytes from `offset` on. Parts come in order; with the last one the image is
/// known to the session under its digest.
struct image_part {
  static constexpr auto id = number::image_part;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  digest image{};
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  static auto fields(auto& x) { return std::tie(x.image, x.offset, x.total); }
};

/// Answers with ModuleFacts (data.capnp) in the arena range; `value` of the
/// answer is their size. Where that is more than the range holds, nothing was
/// written, the module is loaded, and module_facts asks again.
struct module_load {
  static constexpr auto id = number::module_load;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::begins;
  fresh<module_id> module{};
  digest image{};
  arena_range facts{};
  static auto fields(auto& x) { return std::tie(x.module, x.image, x.facts); }
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

/// CU_FUNC_ATTRIBUTE_* that can be set.
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

// -- work
// -----------------------------------------------------------------------

struct launch {
  static constexpr auto id = number::launch;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  static constexpr std::uint32_t cooperative = 1;
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

/// cuOccupancyMaxActiveClusters: `value` of the answer is how many clusters of
/// a launch like this the device holds at once. How many multiprocessors its
/// groups have only the device knows.
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

/// Host to device; the payload is the rows without gaps.
struct write {
  static constexpr auto id = number::write;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::captured;
  live<stream_id> stream{};
  box to{};
  extent size{};
  static auto fields(auto& x) { return std::tie(x.stream, x.to, x.size); }
};

/// Device to host; the rows come without gaps into the arena range.
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

/// Device to pinned host memory. Its slot is answered when the bytes have
/// arrived; a slot that no longer waits when the call is replayed keeps the
/// program's memory from being overwritten.
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

// -- streams and events
// -----------------------------------------------------------

struct stream_create {
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

/// As stream_wait, for an event of another of the session's devices.
struct peer_wait {
  static constexpr auto id = number::peer_wait;
  static constexpr auto kind = answer::none;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  std::uint64_t event = 0; // of that device
  std::uint8_t device = 0;
  static auto fields(auto& x) { return std::tie(x.stream, x.event, x.device); }
};

/// Answered when all work enqueued in the stream so far is done.
struct stream_sync {
  static constexpr auto id = number::stream_sync;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  static auto fields(auto& x) { return std::tie(x.stream); }
};

/// Answered when all work enqueued on the device so far is done.
struct device_sync {
  static constexpr auto id = number::device_sync;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  static auto fields(auto&) { return std::tuple<>(); }
};

/// Answered when the event's latest record is done.
struct event_sync {
  static constexpr auto id = number::event_sync;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<event_id> event{};
  static auto fields(auto& x) { return std::tie(x.event); }
};

/// Milliseconds between two completed records; `value` of the answer holds the
/// bits of a float.
struct elapsed {
  static constexpr auto id = number::elapsed;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<event_id> from{};
  live<event_id> to{};
  static auto fields(auto& x) { return std::tie(x.from, x.to); }
};

/// A host function has its turn in the stream: the slot goes from waiting to
/// called, the program runs the function and appends host_done.
struct host_call {
  static constexpr auto id = number::host_call;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<stream_id> stream{};
  static auto fields(auto& x) { return std::tie(x.stream); }
};

/// Appended before the program's function runs, which may tell the rest of the
/// program: what is appended afterwards comes behind what was in the stream
/// before that host_call, and a replay, in which no function runs, has to know.
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

/// The stream waits until a word of device memory holds a value (schema/
/// awaited_value.hpp), and then for the program: as with host_call, the slot
/// goes from waiting to called, and the program appends host_done. So the log
/// tells a replay that the value was there once; it may have gone since.
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

// -- what sessions share
// ------------------------------------------------------------
//
// No state describes these, and no journal: a replay cannot order its writes
// with those of the other session. Who shares loses its protection.

/// cuIpcGetMemHandle of an allocation: from now on who knows the secret may map
/// it. `value` of the answer is a share_layout. A second time it is the same.
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

/// cuIpcOpenMemHandle: the whole granules of what another session shares are
/// mapped, and may be read and written. It counts against the other's quota, as
/// long as there is the other. CUDA_ERROR_OUT_OF_MEMORY for who is beyond his.
/// memory_unmap and memory_destroy end it.
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

/// cuMemExportToShareableHandle: as memory_share, of memory that the program
/// places by itself.
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

/// cuMemImportFromShareableHandle: memory to be mapped as if memory_create had
/// made it, but what another session shares.
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

/// How many bytes count here for the sake of other sessions, in `value` of the
/// answer: what was freed and another one still has, and what was another's
/// that is gone, and that one of those has taken over who have it still.
struct shared_bytes {
  static constexpr auto id = number::shared_bytes;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  static auto fields(auto&) { return std::tuple<>(); }
};

/// A file that the program has mapped and registered: from now on its pages are
/// those of whole pages of the host window, on both sides, so that kernels
/// reach them. host_free ends it. What other processes do with the file is not
/// in the log. Only where the program is on the worker's host; `file` is a
/// descriptor of the program's, and `control` that of this session's control
/// area, by which the process is known for the program.
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

/// cuIpcGetEventHandle. `value` of the answer is a share_layout that has a host
/// alone.
struct event_share {
  static constexpr auto id = number::event_share;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  live<event_id> event{};
  share_secret session{};
  std::uint64_t serial = 0;
  static auto fields(auto& x) { return std::tie(x.event, x.session, x.serial); }
};

/// cuIpcOpenEventHandle: an event that is another session's too. event_destroy
/// ends it here.
struct event_import {
  static constexpr auto id = number::event_import;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::shared;
  fresh<event_id> event{};
  share_name what{};
  std::uint32_t host = 0;
  static auto fields(auto& x) { return std::tie(x.event, x.what, x.host); }
};

/// Answered at once: CUDA_SUCCESS where the event's latest record is done, else
/// CUDA_ERROR_NOT_READY. With it a program also learns that what it appended
/// before has been executed, so that another process can go by it.
struct event_query {
  static constexpr auto id = number::event_query;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::passes;
  live<event_id> event{};
  static auto fields(auto& x) { return std::tie(x.event); }
};

// -- arrays, textures and surfaces
// ------------------------------------------------------------

/// A CUDA array or mipmapped array. The address is the interposer's choice:
/// copies name its elements by addresses in the layout of layout_of(), and
/// kernels reach them by textures and surfaces alone. `bytes` is that layout's
/// size.
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

/// A texture or surface object. `value` of the answer is the 64-bit value that
/// kernels know it by, which on some devices only the driver can choose.
struct texture_create {
  static constexpr auto id = number::texture_create;
  static constexpr auto kind = answer::sync;
  static constexpr auto lasting = lasts::begins;
  fresh<texture_id> texture{};
  texture_spec what{};
  static auto fields(auto& x) { return std::tie(x.texture, x.what); }
};

/// The program holds this value, and may have stored it anywhere: a replay on
/// a device that gives the object another one fails here.
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

// -- tensor maps
// -----------------------------------------------------------------------

/// cuTensorMapEncodeTiled and its kin: the driver's bytes come into the arena
/// range. They are the program's from then on, and name an address alone, so
/// that nothing of it lasts here.
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
    image_part, module_load, module_facts, module_unload, kernel_attribute,
    launch, active_clusters, write, read, read_host, copy, fill, stream_create,
    stream_destroy, event_create, event_destroy, event_record, stream_wait,
    peer_wait, stream_sync, device_sync, event_sync, elapsed, host_call,
    host_begun, host_done, array_create, array_destroy, texture_create,
    texture_known, texture_destroy, read_managed, write_managed, memory_create,
    memory_destroy, memory_map, memory_unmap, memory_access, wait_value,
    memory_share, memory_import, event_share, event_import, event_query,
    host_file, tensor_map_encode, condition_place, condition_words,
    placed_share, placed_import, shared_bytes>;

template <class Call>
concept decided = std::same_as<decltype(Call::lasting), const lasts>;
static_assert(
    []<class... Calls>(std::tuple<Calls...>*) {
      return (decided<Calls> && ...);
    }(static_cast<all*>(nullptr)),
    "a call does not say what lasts of it");

} // namespace vgpu::call
