// Copies from device memory to the program.
#include "actors/worker/execute/call_dispatch.hpp"
#include "actors/worker/execute/copy_box.hpp"
#include "actors/worker/execute/dispatch_order.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>

namespace vgpu {

namespace {

/// Reads a row in the parts in which it is delivered. Calls `arrived(result,
/// offset, bytes)` after each part, in order. Behind a stream that waits for
/// the program it reads the row at once, because each part takes room in the
/// driver's queue.
template <class F>
status read_parts(dispatch_context& on, stream_id stream, device_address from,
                  std::span<std::byte> into, const F& arrived) {
  auto waits = on.session.functions.open != 0;
  auto part = waits ? into.size() : on.session.sink->part_of(into.size());
  for (std::uint64_t at = 0; at < into.size(); at += part) {
    auto now = into.subspan(at, std::min(part, into.size() - at));
    auto ok = on.device().enqueue_read(
        stream, now, from + at,
        [arrived, at, bytes = now.size()](CUresult result) {
          arrived(result, at, bytes);
        });
    if (!ok)
      return ok;
  }
  return {};
}

/// Holds what is needed to compare a result that the program got.
struct compared_read {
  std::shared_ptr<replay_checks> checks;
  std::shared_ptr<session_health> health;
  std::shared_ptr<answer_sink> sink;
  call_number call;
  earlier_result before;

  compared_read(const dispatch_context& on, std::uint64_t bytes)
      : checks(on.session.checks), health(on.session.health),
        sink(on.session.sink), call(on.what.call), before(on.earlier(bytes)) {}

  /// Compares the bytes that came. A fault of the program's own is its error,
  /// and another worker recovers the session from a device that failed.
  void arrived(CUresult result, std::uint32_t digest,
               std::span<const std::byte> now) const {
    if (result == CUDA_SUCCESS)
      checks->compare(call, before, digest, now);
    else
      (void)health->note(*sink, result);
  }
};

/// Returns room for bytes that are only compared. Null: there is none.
std::shared_ptr<std::byte[]> room_to_check(dispatch_context& on,
                                           std::uint64_t bytes) {
  auto room = replay_checks::take(on.session.checks, bytes);
  if (!room)
    on.session.checks->note_missing(
        on.what.call, "it was not compared, because the device is too slow");
  return room;
}

/// Reads bytes that the program got before, only to compare them.
status check_read(dispatch_context& on, const call::read& x,
                  std::uint64_t bytes) {
  if (on.what.digest == 0 || bytes == 0)
    return {};
  auto room = room_to_check(on, bytes);
  if (!room)
    return {};
  std::span into{room.get(), bytes};
  auto arrived = [room, into,
                  compared = compared_read{on, bytes}](CUresult result) {
    compared.arrived(result, fold_digest(row_hash(into)), into);
  };
  return each_row(x.from, x.size,
                  [&](device_address at, std::uint64_t offset,
                      std::uint64_t width, bool last) {
                    return on.device().enqueue_read(
                        x.stream.id, into.subspan(offset, width), at,
                        last ? device::completion{arrived}
                             : device::completion{[room](CUresult) {}});
                  });
}

/// Describes a row of a copy to pinned memory.
struct host_row {
  std::uint64_t number = 0;
  bool last = false;
  bool wanted = true; // false: it is only compared
  /// Sums up the rows' hashes; null where no digest is kept.
  std::shared_ptr<std::atomic<std::uint64_t>> hashes;

  std::uint64_t add(std::span<const std::byte> bytes) const {
    auto hash = row_hash(bytes, number);
    return hashes->fetch_add(hash) + hash;
  }
};

/// Reads a row that the program got before, only to compare it. The program's
/// memory stays unchanged.
status check_host_row(dispatch_context& on, stream_id stream,
                      device_address from, std::uint64_t bytes,
                      const host_row& row) {
  auto room = room_to_check(on, bytes);
  if (!room)
    return {};
  std::span into{room.get(), bytes};
  return on.device().enqueue_read(
      stream, into, from,
      [room, into, row, compared = compared_read{on, bytes}](CUresult result) {
        auto all = row.add(into);
        if (row.last)
          compared.arrived(result, fold_digest(all), into);
      });
}

/// Reads a row into its place in pinned memory.
status read_host_row(dispatch_context& on, stream_id stream, device_address to,
                     device_address from, std::uint64_t bytes,
                     const host_row& row) {
  if (!row.wanted)
    return check_host_row(on, stream, from, bytes, row);
  auto place = on.session.sink->land_host(to, bytes);
  auto idle = row.last ? on.slot.idle_after(stream) : work_meter::done_mark{};
  return read_parts(
      on, stream, from, place.bytes,
      [sink = on.session.sink, health = on.session.health, who = on.who(),
       place, to, row,
       idle](CUresult result, std::uint64_t at, std::uint64_t count) {
        auto ends = at + count == place.bytes.size();
        std::uint32_t digest = 0;
        if (ends) {
          idle();
          if (row.hashes && result == CUDA_SUCCESS) {
            auto all = row.add(place.bytes);
            digest = row.last ? fold_digest(all) : 0;
          }
        }
        auto slot = ends && row.last ? who.slot : slot_index{0};
        if (health->note(*sink, result) && (ends || result == CUDA_SUCCESS))
          sink->deliver_host({slot, who.call}, result, to + at,
                             place.part(at, count), digest);
      });
}

} // namespace

status execute_call(dispatch_context& on, const call::read& x) {
  if (auto ok = audit_box(on, x.from, x.size); !ok)
    return ok;
  auto bytes = x.size.width * rows(x.size);
  if (on.is_answered()) {
    auto ok = check_read(on, x, bytes);
    return ok ? host_behind_stream(on, x.stream.id) : ok;
  }
  auto place = on.session.sink->land(x.to, bytes);
  if (!place)
    return place.why();
  if (bytes == 0) {
    on.device().when_done(x.stream.id, on.completion());
    return {};
  }
  auto arrived = [sink = on.session.sink, health = on.session.health,
                  who = on.who(), place = *place, offset = x.to.offset,
                  keep = on.session.sink->keeps_digests(),
                  idle = on.slot.idle_after(x.stream.id)](
                     CUresult result, std::uint64_t at, std::uint64_t count) {
    auto here = place.part(at, count);
    if (at + count != place.bytes.size()) {
      if (health->note(*sink, result) && result == CUDA_SUCCESS)
        sink->deliver_part(who, here, offset + at);
      return;
    }
    idle();
    auto digest =
        keep && result == CUDA_SUCCESS ? fold_digest(row_hash(place.bytes)) : 0;
    if (result != CUDA_SUCCESS)
      here = {}; // The device has not written these bytes.
    if (health->note(*sink, result))
      sink->deliver(who, result, place.bytes.size(), here, offset + at, digest);
  };
  if (is_flat(x.from, x.size))
    return read_parts(on, x.stream.id, x.from.address, place->bytes, arrived);
  auto whole = [arrived, bytes](CUresult result) { arrived(result, 0, bytes); };
  return each_row(x.from, x.size,
                  [&](device_address at, std::uint64_t offset,
                      std::uint64_t width, bool last) {
                    return on.device().enqueue_read(
                        x.stream.id, place->bytes.subspan(offset, width), at,
                        last ? device::completion{whole}
                             : device::completion{[](CUresult) {}});
                  });
}

status execute_call(dispatch_context& on, const call::read_host& x) {
  if (auto ok = audit_box(on, x.from, x.size); !ok)
    return ok;
  auto span = span_of(x.to, x.size);
  if (!span || !on.session.host.holds(x.to.address, *span))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a copy to pinned memory leaves the host window");
  auto wanted = !on.is_answered();
  if (!wanted)
    if (auto ok = host_behind_stream(on, x.stream.id); !ok)
      return ok;
  if (!wanted && on.what.digest == 0)
    return {};
  if (x.size.width == 0 || rows(x.size) == 0) {
    if (wanted)
      on.device().when_done(x.stream.id, on.completion());
    return {};
  }
  auto hashes = wanted && !on.session.sink->keeps_digests()
                    ? nullptr
                    : std::make_shared<std::atomic<std::uint64_t>>(0);
  // In rows of the source, which are the destination's.
  std::uint64_t row = 0;
  auto flat_to = x.size.height == 1 || x.to.pitch == x.size.width;
  auto flat_from = x.size.height == 1 || x.from.pitch == x.size.width;
  if (x.size.depth == 1 && flat_to && flat_from)
    return read_host_row(on, x.stream.id, x.to.address, x.from.address, *span,
                         {0, true, wanted, hashes});
  for (std::uint64_t z = 0; z < x.size.depth; ++z)
    for (std::uint64_t y = 0; y < x.size.height; ++y)
      if (auto ok = read_host_row(
              on, x.stream.id, x.to.address + z * x.to.slice + y * x.to.pitch,
              x.from.address + z * x.from.slice + y * x.from.pitch,
              x.size.width, {row, row + 1 == rows(x.size), wanted, hashes});
          !ok)
        return ok;
      else
        ++row;
  return {};
}

} // namespace vgpu
