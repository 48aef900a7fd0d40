#include "interposer/memory/copies.hpp"

#include "interposer/context/peers.hpp"
#include "interposer/memory/arena_reader.hpp"
#include "interposer/memory/late_copies.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/pinned_writes.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/host_call.hpp"
#include "schema/base/streaming_copy.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vgpu::interposer {

namespace {

using side = transfer::side;

/// Returns the bytes from the first to the end of the last, or nothing where
/// that overflows.
std::optional<std::uint64_t> span_of(const rows& x,
                                     const call::extent& size) noexcept {
  constexpr auto limit = window_bytes;
  if (size.width > limit || size.height > limit || size.depth > limit ||
      x.pitch > limit || x.slice > limit)
    return std::nullopt;
  std::uint64_t rows_span, slices_span, whole;
  if (__builtin_mul_overflow(size.height - 1, x.pitch, &rows_span) ||
      __builtin_mul_overflow(size.depth - 1, x.slice, &slices_span) ||
      __builtin_add_overflow(rows_span, slices_span, &whole) ||
      __builtin_add_overflow(whole, size.width, &whole))
    return std::nullopt;
  return whole;
}

/// Describes one end of a transfer, classified and checked.
struct end {
  place where = place::pageable;
  std::uint8_t device = 0;
  rows at;
  // The whole span
  std::uint64_t bytes = 0;
  bool managed = false;
  // Whether it is host memory that devices may use directly: CUDA allocated it,
  // or the program registered it
  bool page_locked = false;
  // Whether the program waits for each copy and fill of it
  bool synchronous = false;
};

/// Moves the managed bytes of this end to the device. Precondition: the
/// caller's next append is work that uses them.
void take_from_host(const end& x) {
  if (managed_memory::host_has_some() && x.managed) [[unlikely]]
    on_occasion<occasion::host_memory>(
        [&] { managed().hand_over(x.at.address, x.bytes); });
}

/// Waits for the device that owns this end. A copy that the program waits for
/// comes after the work of every device that it touches (CUDA runtime API,
/// cudaMemcpyPeer).
CUresult wait_for_owner(const stream& in, const end& x, bool async) {
  if (async || x.where != place::device || x.device == in.device())
    return CUDA_SUCCESS;
  return on_occasion<occasion::peer>(
      [&] { return here().synchronise(x.device); });
}

/// Waits for work on the target where the program, or another device, may look
/// at it right after a call that is not async. It also waits where the program
/// demands that for the memory or the context.
CUresult finish_seen(stream& in, const end& to, bool async) {
  auto elsewhere = to.where == place::device && to.device != in.device();
  auto seen = to.managed || to.where == place::pinned || to.synchronous ||
              (in.owner.flags.load() & CU_CTX_SYNC_MEMOPS) != 0;
  if (async || !(seen || elsewhere))
    return CUDA_SUCCESS;
  if (elsewhere)
    return on_occasion<occasion::peer>([&] { return synchronise(in); });
  return on_occasion<occasion::host_memory>([&] { return synchronise(in); });
}

CUresult examine(const stream& in, const rows& x, const call::extent& size,
                 side named, end& out) {
  auto bytes = span_of(x, size);
  if (x.address == 0 || !bytes || x.address + *bytes < x.address)
    return CUDA_ERROR_INVALID_VALUE;
  auto found = in.is_captured() ? locate_planned(x.address) : locate(x.address);
  out = {found.where, found.device, x, *bytes};
  out.synchronous = synchronous().holds(x.address);
  if (found.where == place::pageable) {
    out.page_locked = registered().holds(x.address, *bytes);
    // A registered address serves as a device address too.
    return named == side::device && !out.page_locked ? CUDA_ERROR_INVALID_VALUE
                                                     : CUDA_SUCCESS;
  }
  if (!found.in)
    return CUDA_ERROR_INVALID_VALUE;
  auto whole = found.in->kind == memory_kind::mapped
                   ? virtual_memories().usable(x.address, *bytes)
                   : found.in->holds(x.address, *bytes);
  if (!whole)
    return CUDA_ERROR_INVALID_VALUE;
  if ((found.in->kind == memory_kind::array) != (named == side::array))
    return CUDA_ERROR_INVALID_VALUE;
  out.managed = found.in->managed;
  out.page_locked = found.where == place::pinned;
  if (found.in->host != 0) {
    // The bytes of adjacent mappings lie apart in the host window.
    if (!found.in->holds(x.address, *bytes))
      return CUDA_ERROR_NOT_SUPPORTED;
    out.at.address = found.in->host + (x.address - found.in->address);
  }
  // A pinned address serves as a device address too. A device address that is
  // given as host memory is a mistake of direction, unless it is both.
  if (named == side::host && found.where == place::device && !out.managed)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

rows moved(const rows& x, std::uint64_t column, std::uint64_t row,
           std::uint64_t slice) noexcept {
  return {x.address + column + row * x.pitch + slice * x.slice, x.pitch,
          x.slice};
}

bool contiguous(const rows& x, const call::extent& size) noexcept {
  return (size.height == 1 || x.pitch == size.width) &&
         (size.depth == 1 || x.slice == size.width * size.height);
}

/// Makes one long row of a box where neither end has gaps.
void flatten(end& to, end& from, call::extent& size) noexcept {
  if (size.height == 1 && size.depth == 1)
    return;
  if (!contiguous(to.at, size) || !contiguous(from.at, size))
    return;
  size = {size.width * size.height * size.depth, 1, 1};
  to.at.pitch = to.at.slice = from.at.pitch = from.at.slice = 0;
}

/// Calls `f(column, row, slice, part)` for parts of at most `limit` bytes that
/// cover the box: several rows where they fit, otherwise parts of a row.
template <class F>
CUresult each_part(const call::extent& size, std::uint64_t limit, const F& f) {
  auto columns = std::min(size.width, limit);
  auto height =
      columns == size.width
          ? std::clamp<std::uint64_t>(limit / size.width, 1, size.height)
          : 1;
  for (std::uint64_t z = 0; z < size.depth; ++z)
    for (std::uint64_t y = 0; y < size.height; y += height)
      for (std::uint64_t x = 0; x < size.width; x += columns) {
        call::extent part{std::min(columns, size.width - x),
                          std::min(height, size.height - y), 1};
        if (auto code = f(x, y, z, part); code != CUDA_SUCCESS)
          return code;
      }
  return CUDA_SUCCESS;
}

/// Copies rows with gaps to bytes without.
void gather(std::span<std::byte> into, const rows& from,
            const call::extent& part) noexcept {
  const auto* source = reinterpret_cast<const std::byte*>(from.address);
  for (std::uint64_t y = 0; y < part.height; ++y)
    std::memcpy(into.data() + y * part.width, source + y * from.pitch,
                part.width);
}

// -- the four directions
// -------------------------------------------------------

/// Copies the part of a long row that is worth several threads, and returns its
/// size in bytes.
std::uint64_t long_row_to_device(stream& in, const end& to, const end& from,
                                 std::uint64_t bytes) {
  auto part = [&](std::uint64_t offset) {
    return call::write{
        {in.wire}, box_of(moved(to.at, offset, 0, 0)), {max_payload, 1, 1}};
  };
  auto longest = here().longest_payload(part(0));
  std::uint64_t done = 0;
  for (;;) {
    auto next = std::min<std::uint64_t>(
        (bytes - done) / max_payload * max_payload, longest);
    if (next < 2 * max_payload)
      return done;
    const auto* source = reinterpret_cast<const std::byte*>(from.at.address);
    in.copied(here().send_parts(
        [&](std::uint64_t offset) { return part(done + offset); }, in.device(),
        {source + done, next}));
    done += next;
  }
}

/// Copies the bytes into the log now. So a replay finds them as they were,
/// whatever the program does with its memory later.
CUresult send_to_device(stream& in, end to, end from, call::extent size) {
  if (auto* by = traced_by(); by != nullptr) [[unlikely]]
    by->copies_from(from.at.address);
  if (size.height == 1 && size.depth == 1) {
    auto done = long_row_to_device(in, to, from, size.width);
    if (done == size.width)
      return CUDA_SUCCESS;
    to.at = moved(to.at, done, 0, 0);
    from.at = moved(from.at, done, 0, 0);
    size.width -= done;
  }
  return each_part(
      size, max_payload,
      [&](std::uint64_t x, std::uint64_t y, std::uint64_t z,
          const call::extent& part) {
        auto source = moved(from.at, x, y, z);
        auto bytes = part.width * part.height;
        call::write what{{in.wire}, box_of(moved(to.at, x, y, z)), part};
        if (part.height == 1 || source.pitch == part.width)
          in.copied(here().send(
              what, in.device(),
              {reinterpret_cast<const std::byte*>(source.address), bytes}));
        else
          in.copied(here().send(
              what, in.device(), static_cast<std::uint32_t>(bytes),
              [&](std::span<std::byte> into) { gather(into, source, part); }));
        return CUDA_SUCCESS;
      });
}

CUresult to_pageable(stream& in, const end& to, const end& from,
                     const call::extent& size) {
  arena_reader reader{in};
  auto code = each_part(size, max_payload,
                        [&](std::uint64_t x, std::uint64_t y, std::uint64_t z,
                            const call::extent& part) {
                          return reader.ask(moved(from.at, x, y, z),
                                            moved(to.at, x, y, z), part);
                        });
  auto rest = reader.finish();
  session_part::get().after_wait.run();
  here().deliver_console();
  return code != CUDA_SUCCESS ? code : rest;
}

/// Returns the length of the parts in which a row is read into pinned memory. A
/// worker on another host keeps each part whole until it has arrived, but each
/// part takes a slot.
std::uint64_t pinned_part(const call::extent& size) noexcept {
  constexpr std::uint64_t usual = std::uint64_t{4} << 20;
  constexpr std::uint64_t most_parts = 64;
  if (size.height != 1 || size.depth != 1)
    return window_bytes;
  return size.width / most_parts / usual * usual + usual;
}

CUresult to_pinned(stream& in, const end& to, const end& from,
                   const call::extent& size, bool async) {
  auto& s = here();
  std::vector<ticket> asked;
  auto part_bytes = pinned_part(size);
  call::extent part = size;
  for (std::uint64_t at = 0; at < size.width; at += part.width) {
    part.width = std::min(part_bytes, size.width - at);
    auto into = moved(to.at, at, 0, 0);
    auto x = s.begin_read(
        call::read_host{
            {in.wire}, box_of(into), box_of(moved(from.at, at, 0, 0)), part},
        in.device(), part.width * part.height * part.depth);
    in.worked(x.call);
    if (async)
      writes_under_way().add(x, into.address,
                             part.width == size.width ? to.bytes : part.width);
    else
      asked.push_back(x);
  }
  if (async)
    return CUDA_SUCCESS;
  // The last part comes first: when it has arrived, the others have too.
  auto first = CUDA_SUCCESS;
  for (; !asked.empty(); asked.pop_back())
    if (auto got = s.finish(asked.back()); got.result != CUDA_SUCCESS)
      first = got.result;
  session_part::get().after_wait.run();
  s.deliver_console();
  return first;
}

void move_within_host(const end& to, const end& from,
                      const call::extent& size) {
  for (std::uint64_t z = 0; z < size.depth; ++z)
    for (std::uint64_t y = 0; y < size.height; ++y)
      std::memmove(
          reinterpret_cast<void*>(moved(to.at, 0, y, z).address),
          reinterpret_cast<const void*>(moved(from.at, 0, y, z).address),
          size.width);
}

// -- when the program's memory is used
// -----------------------------------------------------------------------------

using order = transfer::order;

/// Reads into the program's memory through a hidden stream when the stream
/// comes to the copy.
class late_read final : public copy_steps {
public:
  late_read(const end& from, std::span<const read_part> parts)
      : from_(from), parts_(parts.begin(), parts.end()) {}

  /// Requests as many parts as there is room for. All earlier ones have come.
  bool step(stream& through) override {
    if (!reader_) {
      take_from_host(from_);
      reader_.emplace(through);
    }
    (void)reader_->finish();
    auto asked = false;
    for (; next_ < parts_.size(); ++next_, asked = true)
      if (const auto& x = parts_[next_];
          !reader_->ask_now(x.from, x.to, x.size))
        break;
    return asked || next_ < parts_.size();
  }

private:
  const end from_;
  const std::vector<read_part> parts_;
  std::size_t next_ = 0;
  std::optional<arena_reader> reader_;
};

/// Appends the copy now, and its bytes when the stream comes to it.
CUresult write_late(stream& in, const end& to, const end& from,
                    const call::extent& size) {
  if (auto* by = traced_by(); by != nullptr) [[unlikely]]
    by->copies_from(from.at.address);
  std::vector<late_part> parts;
  (void)each_part(size, max_payload,
                  [&](std::uint64_t x, std::uint64_t y, std::uint64_t z,
                      const call::extent& part) {
                    auto source = moved(from.at, x, y, z);
                    parts.push_back(
                        {{{in.wire}, box_of(moved(to.at, x, y, z)), part},
                         source.address,
                         source.pitch});
                    return CUDA_SUCCESS;
                  });
  return late_copies().add_write(in, std::move(parts));
}

std::vector<read_part> parts_of_read(const end& to, const end& from,
                                     const call::extent& size,
                                     std::uint64_t largest) {
  std::vector<read_part> out;
  (void)each_part(
      size, largest,
      [&](std::uint64_t x, std::uint64_t y, std::uint64_t z,
          const call::extent& part) {
        out.push_back({moved(from.at, x, y, z), moved(to.at, x, y, z), part});
        return CUDA_SUCCESS;
      });
  return out;
}

/// Reads parts in the stream itself, into its room, and lets the program's
/// memory get the bytes while the stream waits. Takes away the parts that it
/// appended: all of them, unless the program has requested too much.
CUresult read_in_stream(stream& in, const end& to,
                        const std::shared_ptr<late_room>& room,
                        std::span<const read_part>& parts) {
  auto begin = to.at.address;
  std::lock_guard one{room->lock()};
  while (!parts.empty()) {
    auto reader = std::make_shared<late_reader>(in, room);
    auto asked = reader->ask(parts);
    if (asked == 0)
      break;
    auto code = late_copies().add_action(in, begin, begin + to.bytes,
                                         [reader] { reader->take(); });
    if (code != CUDA_SUCCESS)
      return code;
    parts = parts.subspan(asked);
  }
  return CUDA_SUCCESS;
}

/// Reads for a copy whose bytes the program's memory gets when the stream comes
/// to it. Where there is no room for it, it waits like a driver whose queue is
/// full. Where that may be in vain, a hidden stream reads: it needs a channel
/// of the GPU, which streams that wait for it may occupy.
CUresult read_late(stream& in, const end& to, const end& from,
                   const call::extent& size) {
  std::shared_ptr<late_room> room;
  (void)host_calls().retry_at_ends([&] {
    room = late_copies().room_of(in);
    return room != nullptr;
  });
  auto parts =
      parts_of_read(to, from, size, room ? room->piece_bytes() : max_payload);
  std::span<const read_part> rest{parts};
  auto code = CUDA_SUCCESS;
  auto appended = [&] {
    code = read_in_stream(in, to, room, rest);
    return code != CUDA_SUCCESS || rest.empty();
  };
  if (room && host_calls().retry_at_ends(appended))
    return code;
  return late_copies().add(in, to.at.address, to.at.address + to.bytes,
                           std::make_unique<late_read>(from, rest));
}

/// Tells whether the program's bytes may change before the stream comes to its
/// next work.
bool may_change(const end& x) {
  return host_calls().may_change(x.at.address, x.bytes) ||
         writes_under_way().may_change(x.at.address, x.bytes);
}

/// Tells whether the bytes are used only after the stream's earlier work, for
/// which the call waits.
bool waits_before(const end& from, const transfer& what) {
  // A driver stages pageable memory. Where much of it does not fit, the driver
  // waits.
  constexpr std::uint64_t much = std::uint64_t{1} << 20;
  if (!what.async)
    return true;
  if (what.when == order::during_call)
    return from.page_locked;
  if (from.page_locked)
    return false;
  return what.when == order::in_stream ||
         (what.when == order::usual && from.bytes >= much &&
          host_calls().may_change(from.at.address, from.bytes));
}

CUresult to_device(stream& in, const end& to, const end& from,
                   const call::extent& size, const transfer& what) {
  if (waits_before(from, what)) {
    auto code =
        on_occasion<occasion::host_memory>([&] { return finish_work(in); });
    if (code != CUDA_SUCCESS)
      return code;
  } else if (from.page_locked && what.when != order::during_call &&
             may_change(from)) {
    return on_occasion<occasion::host_memory>(
        [&] { return write_late(in, to, from, size); });
  }
  session_part::get().after_wait.run();
  auto code = send_to_device(in, to, from, size);
  return code == CUDA_SUCCESS ? finish_seen(in, to, what.async) : code;
}

CUresult to_host(stream& in, const end& to, const end& from,
                 const call::extent& size, const transfer& what) {
  auto async = what.async && what.when != order::during_call;
  if (to.where == place::pinned)
    return to_pinned(in, to, from, size, async);
  auto returns = to.page_locked || what.when != order::usual;
  if (async && returns && !is_idle(in))
    return read_late(in, to, from, size);
  return to_pageable(in, to, from, size);
}

CUresult within_host(stream& in, const end& to, const end& from,
                     const call::extent& size, const transfer& what) {
  if (what.when == order::in_stream || what.when == order::any)
    return late_copies().add_action(
        in, to.at.address, to.at.address + to.bytes,
        [to, from, size] { move_within_host(to, from, size); });
  auto waits =
      what.when != order::during_call || (to.page_locked && from.page_locked);
  if (auto code = waits ? synchronise(in) : CUDA_SUCCESS; code != CUDA_SUCCESS)
    return code;
  move_within_host(to, from, size);
  return CUDA_SUCCESS;
}

CUresult examine_ends(const stream& in, const transfer& what, end& to,
                      end& from) {
  auto code = examine(in, what.to, what.size, what.to_side, to);
  return code != CUDA_SUCCESS
             ? code
             : examine(in, what.from, what.size, what.from_side, from);
}

} // namespace

CUresult check_transfer(const stream& in, const transfer& what) {
  end to, from;
  return is_empty(what.size) ? CUDA_SUCCESS : examine_ends(in, what, to, from);
}

CUresult transfer_bytes(stream& in, const transfer& what) {
  auto size = what.size;
  if (is_empty(size))
    return CUDA_SUCCESS;
  end to, from;
  if (auto code = examine_ends(in, what, to, from); code != CUDA_SUCCESS)
    return code;
  for (const auto* x : {&to, &from}) {
    take_from_host(*x);
    if (auto code = wait_for_owner(in, *x, what.async); code != CUDA_SUCCESS)
      return code;
  }
  flatten(to, from, size);
  auto to_is_device = to.where == place::device;
  auto from_is_device = from.where == place::device;
  if (to_is_device && from_is_device) {
    in.worked(
        here().send(call::copy{{in.wire}, box_of(to.at), box_of(from.at), size},
                    in.device()));
    to.synchronous |= from.synchronous;
    return finish_seen(in, from.managed ? from : to, what.async);
  }
  if (to_is_device)
    return to_device(in, to, from, size, what);
  return on_occasion<occasion::host_memory>([&] {
    return from_is_device ? to_host(in, to, from, size, what)
                          : within_host(in, to, from, size, what);
  });
}

namespace {

/// Checks the arguments of a fill. It does not change `target` where there is
/// nothing to fill.
CUresult examine_fill(const stream& in, const rows& to,
                      std::uint32_t element_bytes, const call::extent& size,
                      end& target) {
  if (size.width > window_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto in_bytes = size;
  in_bytes.width *= element_bytes;
  if (to.address % element_bytes != 0 ||
      (size.height > 1 && to.pitch % element_bytes != 0) ||
      (size.height > 1 && to.pitch < in_bytes.width))
    return CUDA_ERROR_INVALID_VALUE;
  if (is_empty(size))
    return CUDA_SUCCESS;
  if (auto code = examine(in, to, in_bytes, side::device, target);
      code != CUDA_SUCCESS)
    return code;
  // A copy needs no such permission (seen with driver 580).
  if (target.where == place::device && target.device != in.device() &&
      !peers().allow(in.device(), target.device)) [[unlikely]]
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/// Fills memory that the program registered, once the stream comes to it. Only
/// the program's process has that memory.
CUresult fill_registered(stream& in, const rows& to, std::uint32_t value,
                         std::uint32_t element_bytes,
                         const call::extent& size) {
  if (auto code = synchronise(in); code != CUDA_SUCCESS)
    return code;
  for (std::uint64_t z = 0; z < size.depth; ++z)
    for (std::uint64_t y = 0; y < size.height; ++y)
      for (std::uint64_t x = 0; x < size.width; ++x)
        std::memcpy(
            reinterpret_cast<void*>(moved(to, x * element_bytes, y, z).address),
            &value, element_bytes);
  return CUDA_SUCCESS;
}

} // namespace

CUresult check_fill(const stream& in, const rows& to,
                    std::uint32_t element_bytes, const call::extent& size) {
  end target;
  return examine_fill(in, to, element_bytes, size, target);
}

CUresult fill_bytes(stream& in, const rows& to, std::uint32_t value,
                    std::uint32_t element_bytes, const call::extent& size,
                    bool async) {
  end target;
  if (auto code = examine_fill(in, to, element_bytes, size, target);
      code != CUDA_SUCCESS || is_empty(size))
    return code;
  if (target.where == place::pageable) [[unlikely]]
    return on_occasion<occasion::host_memory>(
        [&] { return fill_registered(in, to, value, element_bytes, size); });
  take_from_host(target);
  auto pinned = target.where == place::pinned;
  if (pinned)
    on_occasion<occasion::host_memory>(
        [&] { zero_copy().before_fill(target.at.address); });
  in.worked(here().send(
      call::fill{{in.wire}, box_of(target.at), value, element_bytes, size},
      in.device()));
  if (pinned)
    writes_under_way().add_fill(in, target.at.address, target.bytes);
  return finish_seen(in, target, async);
}

} // namespace vgpu::interposer
