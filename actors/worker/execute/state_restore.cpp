#include "actors/worker/execute/state_restore.hpp"

#include "actors/link/log.hpp"
#include "actors/state/chunk_stream.hpp"
#include "actors/state/device_wait.hpp"
#include "actors/worker/execute/memory_lending.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

namespace vgpu {

namespace {

bool lies_in(const memory_ranges& ranges, const state_chunk& x) {
  auto next = ranges.upper_bound(x.address);
  if (next == ranges.begin())
    return false;
  auto& [address, bytes] = *std::prev(next);
  return x.bytes <= bytes && x.address - address <= bytes - x.bytes;
}

bool lies_in(const device::global_info& range, const state_chunk& x) {
  return x.address >= range.address && x.bytes <= range.bytes &&
         x.address - range.address <= range.bytes - x.bytes;
}

bool begins_in_array(const vgpu_state& state, device_address x) {
  return std::ranges::any_of(state.arrays(), [&](auto& y) {
    return x >= y.second.address && x - y.second.address < y.second.bytes;
  });
}

} // namespace

// -- memory -------------------------------------------------------------------

std::optional<state_restore::target> state_restore::find(const state_chunk& x) {
  for (auto& slot : session_.devices) {
    if (!slot.in_window(x.address)) {
      if (lies_in(outside_[slot.ordinal], x))
        return target{&slot, false};
      continue;
    }
    for (auto& kept : slot.kept_for_good)
      if (lies_in(kept, x))
        return target{&slot, false};
    if (!slot.state.holds(x.address, x.bytes))
      return std::nullopt;
    auto driver_placed =
        x.address - window_of(slot.ordinal) >= device_placed_offset;
    return target{&slot,
                  !driver_placed && !begins_in_array(slot.state, x.address)};
  }
  return std::nullopt;
}

status state_restore::host_chunk(const state_chunk& x) {
  if (!session_.host.holds(x.address, x.bytes))
    return contradiction("host memory outside of its window");
  // The memory of a program on this host is the program's own, and newer.
  if (!session_.host.is_shadow())
    return {};
  has_host_memory_ = true;
  if (x.form == chunk_form::zero)
    return {};
  return from_.read(x, {reinterpret_cast<std::byte*>(x.address), x.bytes});
}

status state_restore::chunk(const state_chunk& x) {
  if (in_host_window(x.address))
    return host_chunk(x);
  auto where = find(x);
  if (!where)
    return contradiction("contents at " + hex_of(x.address) +
                         ", where nothing is allocated");
  if (where->fresh && x.form == chunk_form::zero)
    return {};
  (may_adopt(x, *where->slot) ? to_adopt_ : to_write_).push_back(x);
  return {};
}

/// Writes memory to which find() has given a device.
status state_restore::write() {
  auto chunks = std::exchange(to_write_, {});
  chunk_stream contents{from_, chunks};
  for (auto& x : chunks) {
    auto bytes = contents.next();
    if (!bytes)
      return bytes.why();
    if (auto ok = write(x, *find(x)->slot, std::move(*bytes)); !ok)
      return ok;
  }
  return {};
}

status state_restore::write(const state_chunk& x, device_slot& slot,
                            std::shared_ptr<std::byte[]> bytes) {
  auto& to = *slot.device;
  std::span<const std::byte> contents{bytes.get(), x.bytes};
  if (auto ok = to.enqueue_write(legacy_stream, x.address, contents,
                                 std::move(bytes));
      !ok)
    return ok;
  under_way_ += x.bytes;
  if (under_way_ < state_batch_bytes)
    return {};
  under_way_ = 0;
  return wait_for(to, "copies of a state");
}

bool state_restore::may_adopt(const state_chunk& x,
                              const device_slot& slot) const {
  constexpr std::uint64_t page = 4096;
  return adopted_ >= 0 && slot.can.file != nullptr &&
         x.form == chunk_form::raw && x.bytes == granule_bytes &&
         x.address % granule_bytes == 0 && x.offset % page == 0;
}

/// Makes the state's file the session's memory, in as few pieces as possible.
status state_restore::adopt() {
  if (!to_adopt_.empty())
    for (auto& slot : session_.devices)
      if (auto ok = wait_for(*slot.device, "copies of a state"); !ok)
        return ok;
  for (auto first = to_adopt_.begin(); first != to_adopt_.end();) {
    auto end = std::next(first);
    while (end != to_adopt_.end() &&
           end->address - first->address == end->offset - first->offset &&
           end->address == std::prev(end)->address + granule_bytes)
      ++end;
    auto& slot = session_.devices[device_at(first->address)];
    auto bytes = static_cast<std::uint64_t>(end - first) * granule_bytes;
    auto ok =
        slot.can.file->adopt(first->address, bytes, adopted_, first->offset);
    // On failure it is copied like all other memory.
    if (!ok)
      to_write_.insert(to_write_.end(), first, end);
    first = end;
  }
  return {};
}

status state_restore::memory() {
  for (auto& x : index().memory)
    if (auto ok = chunk(x); !ok)
      return ok;
  if (auto ok = write(); !ok)
    return ok;
  if (auto ok = adopt(); !ok)
    return ok;
  if (auto ok = write(); !ok) // what could not be adopted
    return ok;
  if (lent_.size() != index().lent.size())
    return contradiction("the memory that it lends did not come with it");
  for (std::size_t i = 0; i < lent_.size(); ++i)
    if (auto ok =
            take_lent_memory(session_, index().lent[i], std::move(lent_[i]));
        !ok)
      return ok;
  return {};
}

/// Writes the contents of physical memory, which was just made and is zero.
status state_restore::placed_memory(const state_placed& x) {
  if (x.device >= session_.devices.size() ||
      !session_.devices[x.device].state.audit(call::live<memory_id>{x.memory}))
    return contradiction("contents of physical memory that is not there");
  auto& slot = session_.devices[x.device];
  auto bytes = slot.state.memories().at(x.memory).bytes;
  auto next = x.chunks.begin();
  auto all = slot.look_through(
      x.memory, bytes, [&](auto at, auto offset, auto part) -> status {
        for (; next != x.chunks.end() && next->address < offset + part;
             ++next) {
          auto begin = next->address - offset;
          if (next->address < offset || next->bytes > part - begin)
            return contradiction(
                "a chunk that lies across parts of physical memory");
          auto contents = std::make_shared<std::vector<std::byte>>(next->bytes);
          if (auto ok = from_.read(*next, *contents); !ok)
            return ok;
          if (auto ok = slot.device->enqueue_write(legacy_stream, at + begin,
                                                   *contents, contents);
              !ok)
            return ok;
        }
        return {};
      });
  if (all && next != x.chunks.end())
    return contradiction("contents behind the end of physical memory");
  return all;
}

status state_restore::events() {
  for (auto& slot : session_.devices) {
    std::vector<event_time> past;
    for (auto& [device, x] : index().events)
      if (device == slot.ordinal)
        past.push_back(x);
    if (auto ok = slot.times.restore(*slot.device, past); !ok)
      return ok;
    if (auto ok = wait_for(*slot.device, "copies of a state"); !ok)
      return ok;
  }
  return {};
}

status state_restore::contents() {
  for (auto& slot : session_.devices)
    outside_.push_back(slot.outside_of_window());
  auto ok = memory();
  for (auto& x : index().placed)
    if (ok)
      ok = placed_memory(x);
  if (ok)
    ok = events();
  if (ok && session_.health->error() != CUDA_SUCCESS)
    ok = cuda_fault(session_.health->error(),
                    "a state's calls ended in an error here");
  return ok;
}

// -- the whole state ----------------------------------------------------------

status state_restore::run() {
  using clock = std::chrono::steady_clock;
  auto began = clock::now();
  auto ok = objects_.images();
  auto has_images = clock::now();
  if (ok)
    ok = objects_.make_all();
  if (ok)
    ok = objects_.compare_variables();
  auto has_objects = clock::now();
  if (ok)
    ok = contents();
  if (!ok)
    return ok;
  using std::chrono::milliseconds;
  spdlog::debug("a state is restored: {} ms for images, {} ms for objects, {} "
                "ms for contents",
                (has_images - began) / milliseconds{1},
                (has_objects - has_images) / milliseconds{1},
                (clock::now() - has_objects) / milliseconds{1});
  if (auto x = objects_.counted(); x.made_ahead != 0)
    spdlog::info("of {} objects besides memory, {} were made ahead", x.all,
                 x.made_ahead);
  if (has_host_memory_)
    session_.host.zero_copy()->restored();
  session_.output->restore(index().consoles);
  session_.position = index().position;
  session_.calls = index().calls;
  return {};
}

} // namespace vgpu
