// One call of a session on its device: audit, device, answer.
#pragma once

#include "actors/worker/execute/answer_digest.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/execute/executor_shared.hpp"
#include "schema/wire/call_codec.hpp"

#include <memory>
#include <optional>

namespace vgpu {

/// One call on its device. A status that is not ok is the program's error.
struct call_dispatch {
  executor& self;
  const record& what;
  std::shared_ptr<const void> owner;
  std::size_t ordinal = 0;

  device::device& dev() { return *self.devices_[ordinal]; }
  vgpu_state& state() { return self.states_[ordinal]; }
  stream_order& order() { return self.orders_[ordinal]; }
  event_times& times() { return self.times_[ordinal]; }
  waiter who() const { return {what.slot, what.call}; }

  /// Before anything is enqueued in a stream.
  template <class Call>
  status join(const Call& x) {
    if constexpr (requires { x.stream.id; } &&
                  Call::id != call::number::stream_create &&
                  Call::id != call::number::stream_destroy) {
      if (self.replayed_waits_.any()) [[unlikely]]
        follow_waits(x.stream.id);
      return order().join(dev(), x.stream.id, state().streams());
    } else
      return {};
  }

  /// After a copy or memset: programs rely on the synchronous forms, which use
  /// the legacy stream, being done before whatever they enqueue next, also in
  /// streams that do not wait for the legacy stream.
  void settle(stream_id stream) {
    if (stream == legacy_stream)
      order().after_legacy();
  }

  /// Whoever is told that this stream's work is done (none: all streams') may
  /// know that the device is idle.
  work_meter::done_mark idle_after(std::optional<stream_id> stream) {
    auto& meter = self.work_meters_[ordinal];
    return meter ? meter->proof(stream) : work_meter::done_mark{};
  }

  /// Answers this call when the device is done with what it waits for.
  device::completion completion(work_meter::done_mark idle = {}) const {
    return [sink = self.sink_, health = self.health_, who = who(),
            idle](CUresult result) {
      idle();
      if (health->note(*sink, result))
        sink->answer(who, result, 0);
    };
  }

  /// What is kept of an answer, to be compared when a replay brings it again.
  std::uint32_t digest_of(std::span<const std::byte> answer) const {
    return self.sink_->keeps_digests() ? fold_digest(row_hash(answer)) : 0;
  }

  // -- audit of addresses

  status audit_box(const call::box& box, const call::extent& size);
  bool in_host(device_address address, std::uint64_t bytes) const;
  static std::uint64_t rows(const call::extent& size) {
    return size.height * size.depth;
  }
  static device::pitched pitched(const call::box& x) {
    return {x.address, x.pitch, x.slice};
  }
  static device::extent extent(const call::extent& x) {
    return {x.width, x.height, x.depth};
  }
  /// Whether all of a box is one row.
  static bool is_flat(const call::box& box, const call::extent& size) {
    return (size.height == 1 || box.pitch == size.width) &&
           (size.depth == 1 || box.slice == size.width * size.height);
  }
  /// Calls `f(address, offset)` for each row of a box; offset is the row's
  /// place in its bytes without gaps. Rows that follow each other without gaps
  /// are one row.
  template <class F>
  static status each_row(const call::box& box, const call::extent& size, F f) {
    if (size.width == 0 || rows(size) == 0)
      return {};
    if (is_flat(box, size))
      return f(box.address, std::uint64_t{0}, size.width * rows(size), true);
    std::uint64_t offset = 0;
    for (std::uint64_t z = 0; z < size.depth; ++z)
      for (std::uint64_t y = 0; y < size.height; ++y) {
        auto last = z + 1 == size.depth && y + 1 == size.height;
        auto ok = f(box.address + z * box.slice + y * box.pitch, offset,
                    size.width, last);
        if (!ok)
          return ok;
        offset += size.width;
      }
    return {};
  }

  // -- memory

  status operator()(const call::mem_alloc& x);
  status map_memory(device_address address, std::uint64_t bytes);
  status unmap_memory(device_address address, std::uint64_t bytes);
  /// Freed memory is given back when the work that may use it is done: an
  /// allocation that finds none left waits for that, as cuMemFree does on a
  /// GPU.
  bool wait_for_device();
  status operator()(const call::mem_free& x);
  status operator()(const call::host_alloc& x);
  status operator()(const call::host_free& x);
  status operator()(const call::zero_copy& x);
  status operator()(const call::zero_copy_write& x);
  status operator()(const call::host_file& x);

  // -- managed memory

  status operator()(const call::read_managed& x);
  status operator()(const call::write_managed& x);

  // -- what the program waited for

  /// A call by which the program learned that work is done is replayed: what it
  /// did afterwards, with managed memory and in whatever stream of whatever
  /// device, is to come behind that work again, although nothing here waits.
  bool is_answered() const { return !self.sink_->wanted(who()); }
  bool is_replayed() const { return what.end <= self.replay_until_; }
  status host_behind_stream(stream_id stream);
  status host_behind_all();
  status host_behind_event(event_id event);
  status host_behind(stream_id stream);
  /// All that is enqueued from now on comes behind what the host's stream waits
  /// for; not while a stream waits for a value.
  status host_learned(status ok);

  // -- memory that the program places by itself

  /// Null where the device has none.
  device::memory_unit* memories() { return self.memory_units_[ordinal]; }
  static fault no_memories() {
    return {CUDA_ERROR_NOT_SUPPORTED,
            "this device has no virtual memory management"};
  }
  status operator()(const call::memory_create& x);
  status operator()(const call::memory_destroy& x);
  status operator()(const call::memory_map& x);
  status operator()(const call::memory_unmap& x);
  status operator()(const call::memory_access& x);

  // -- words by which graphs choose

  status set_conditions(memory_id memory, device_address address,
                        device_address place);
  status operator()(const call::condition_place& x);
  status operator()(const call::condition_words& x);

  // -- what sessions share

  /// A fault where the device shares nothing.
  result<device::sharing_unit*> sharing();
  /// Where others ask for what this session lends.
  status lend(const share_secret& secret, const share_key& key,
              std::uint64_t serial, device::shared_object object,
              std::uint64_t bytes);
  bool at_rest() const;
  /// Lends what `make(sharing_unit&)` makes shareable, and answers its layout.
  template <class Make>
  status share(const share_secret& secret, const share_key& key,
               std::uint64_t serial, std::uint64_t bytes, const Make& make);
  status operator()(const call::memory_share& x);
  status operator()(const call::placed_share& x);
  /// What another session lends becomes memory of that name.
  status import_memory(share_kind kind, const share_name& name,
                       std::uint32_t host, memory_id as, std::uint64_t bytes);
  status operator()(const call::memory_import& x);
  status operator()(const call::placed_import& x);
  /// What was freed and another session has counts here as well, and what was
  /// another's and nobody else counts. The latter only where the program is
  /// told: an allocation that it had room for must not fail because some other
  /// process has ended meanwhile.
  void count_left();
  void take_over_foreign();
  status operator()(const call::shared_bytes& x);
  /// Maps memory where the program may read and write it.
  status show(memory_id memory, device_address address, std::uint64_t bytes);
  status operator()(const call::event_share& x);
  status operator()(const call::event_import& x);
  status operator()(const call::event_query& x);

  // -- arrays, textures and surfaces

  /// Null where the device has none; then the call was refused.
  device::texture_unit* unit() { return self.texture_units_[ordinal]; }
  static fault no_unit() {
    return {CUDA_ERROR_NOT_SUPPORTED, "this device has no arrays or textures"};
  }
  status operator()(const call::array_create& x);
  status operator()(const call::array_destroy& x);
  status operator()(const call::texture_create& x);
  status operator()(const call::texture_known& x);
  status operator()(const call::texture_destroy& x);

  // -- tensor maps

  status operator()(const call::tensor_map_encode& x);

  // -- modules

  status operator()(const call::image_part& x);
  status operator()(const call::module_load& x);
  status operator()(const call::module_facts& x);
  status refuse_module(const fault& why, call::arena_range where);
  status answer_facts(module_id id, call::arena_range where);
  status operator()(const call::module_unload& x);
  status operator()(const call::kernel_attribute& x);
  static status no_such_kernel(std::uint32_t index) {
    return fault{CUDA_ERROR_INVALID_HANDLE,
                 "the module has no kernel " + std::to_string(index)};
  }

  // -- work

  status operator()(const call::launch& x);
  status operator()(const call::active_clusters& x);
  status operator()(const call::write& x);
  status operator()(const call::read& x);
  status operator()(const call::read_host& x);
  /// Reads a row in the parts that it is delivered in. As each has landed,
  /// `arrived(result, offset, bytes)` is called, in their order.
  template <class F>
  status read_parts(stream_id stream, device_address from,
                    std::span<std::byte> into, const F& arrived) {
    auto part = self.sink_->part_of(into.size());
    for (std::uint64_t at = 0; at < into.size(); at += part) {
      auto now = into.subspan(at, std::min(part, into.size() - at));
      auto ok = dev().enqueue_read(
          stream, now, from + at,
          [arrived, at, bytes = now.size()](CUresult result) {
            arrived(result, at, bytes);
          });
      if (!ok)
        return ok;
    }
    return {};
  }
  status check_read(const call::read& x, std::uint64_t bytes);
  /// A row of a copy to pinned memory.
  struct host_row {
    std::uint64_t number = 0;
    bool last = false;
    bool wanted = true; // else it is only compared
    /// The sum of the rows' hashes; null where no digest is kept.
    std::shared_ptr<std::atomic<std::uint64_t>> hashes;

    std::uint64_t add(std::span<const std::byte> bytes) const {
      auto hash = row_hash(bytes, number);
      return hashes->fetch_add(hash) + hash;
    }
  };
  status read_host_row(stream_id stream, device_address to, device_address from,
                       std::uint64_t bytes, const host_row& row);
  status check_host_row(stream_id stream, device_address from,
                        std::uint64_t bytes, const host_row& row);
  status operator()(const call::copy& x);
  status operator()(const call::fill& x);

  // -- streams and events

  status operator()(const call::stream_create& x);
  status operator()(const call::stream_destroy& x);
  status operator()(const call::event_create& x);
  status operator()(const call::event_destroy& x);
  status operator()(const call::event_record& x);
  status operator()(const call::stream_wait& x);
  status operator()(const call::peer_wait& x);
  status operator()(const call::stream_sync& x);
  status operator()(const call::device_sync&);
  status operator()(const call::event_sync& x);
  status operator()(const call::elapsed& x);

  // -- host functions, and waits for values

  /// What streams have to come behind they do now, not when they are next used:
  /// then it would include what waits for the program from now on, and what the
  /// program does may be what they bring.
  status catch_up();
  /// The stream stops until the program has appended host_done.
  status call_program(stream_id stream);
  status operator()(const call::host_call& x);
  status operator()(const call::host_begun& x);
  status operator()(const call::wait_value& x);
  /// What a stream is to catch up with may be behind a wait that is replayed.
  void follow_order(std::size_t device, stream_id stream);
  /// Likewise what it waits for by CUDA's rules, now that it is used.
  void follow_waits(stream_id stream);
  bool waits_in_replay(stream_id stream) const {
    return self.replayed_waits_.holds({ordinal, stream});
  }
  status operator()(const call::host_done& x);
};

} // namespace vgpu
