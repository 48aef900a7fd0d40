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

fault contradiction(const std::string& what) {
  return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                    "a vGPU's state contradicts itself: " + what +
                        "; it cannot be used");
}

/// Refuses a call that a state cannot have. A state consists of the calls that
/// living_calls keeps.
status check_kept(std::uint64_t number, std::span<const std::uint64_t> words) {
  auto kept = false;
  auto look = [&]<class Call>(const Call&, std::uint8_t) {
    kept = living_calls::keeps<Call>();
  };
  if (auto ok = call::decode(words, look); !ok)
    return ok;
  if (!kept)
    return contradiction("call " + std::to_string(number) +
                         " leaves nothing behind");
  return {};
}

/// Returns whether a call makes memory. The program chose the memory's
/// addresses; only the other objects decide where a driver puts variables.
bool makes_memory(std::span<const std::uint64_t> words) {
  auto memory = false;
  (void)call::decode(words, [&]<class Call>(const Call&, std::uint8_t) {
    using call::number;
    memory =
        Call::id == number::mem_alloc || Call::id == number::host_alloc ||
        Call::id == number::memory_create || Call::id == number::memory_map ||
        Call::id == number::memory_access || Call::id == number::host_map ||
        Call::id == number::condition_words ||
        Call::id == number::texture_create || Call::id == number::texture_known;
  });
  return memory;
}

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

// -- objects ------------------------------------------------------------------

status state_restore::images() {
  for (auto& x : index().images) {
    if (!session_.image_sizes.restore(x.digest, x.bytes))
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                        "the images of a state take too much memory");
    std::vector<std::byte> bytes(x.bytes);
    for (auto& part : x.chunks)
      if (auto ok = from_.read(
              part, std::span{bytes}.subspan(part.address, part.bytes));
          !ok)
        return ok;
    // The last parts may still come. Then the digest is checked.
    session_.images.insert_or_assign(x.digest, std::move(bytes));
  }
  return {};
}

status state_restore::objects(bool memory_too) {
  for (auto& [number, words] : index().living) {
    if (auto ok = check_kept(number, words); !ok)
      return ok;
    if (!memory_too && makes_memory(words))
      continue;
    record what{.call = {number},
                .end = number,
                .slot = 0,
                .message = words,
                .payload = {}};
    if (auto ok = perform_(what); !ok)
      return ok.why().reworded("call " + std::to_string(number) +
                               " cannot be repeated here: " + ok.why().what);
  }
  return {};
}

status state_restore::variables() {
  for (auto& x : index().globals)
    if (auto ok = variable(x); !ok)
      return ok;
  return {};
}

/// Checks that a variable has the same address. Programs may have stored
/// variables' addresses anywhere.
status state_restore::variable(const state_global& x) {
  if (x.device >= session_.devices.size() ||
      !session_.devices[x.device].state.audit(call::live<module_id>{x.module}))
    return contradiction("a variable of a module that is not there");
  auto& there = session_.devices[x.device].state.module(x.module).globals;
  auto found = std::find_if(there.begin(), there.end(),
                            [&](auto& y) { return y.name == x.name; });
  if (found == there.end() || found->bytes != x.bytes)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "variable " + x.name + " of the program has " +
                          std::to_string(x.bytes) +
                          " bytes, and is missing or has another size here");
  if (found->address != x.address)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "variable " + x.name + " of the program lies at " +
                          hex_of(x.address) + ", and this device puts it at " +
                          hex_of(found->address));
  return {};
}

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

status state_restore::check_devices() const {
  if (index().devices == session_.devices.size())
    return {};
  return cuda_fault(CUDA_ERROR_INVALID_DEVICE,
                    "a vGPU's state is of " + std::to_string(index().devices) +
                        " devices, and here are " +
                        std::to_string(session_.devices.size()));
}

status state_restore::run() {
  using clock = std::chrono::steady_clock;
  auto began = clock::now();
  auto ok = check_devices();
  if (ok)
    ok = images();
  auto has_images = clock::now();
  if (ok)
    ok = objects(true);
  if (ok)
    ok = variables();
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
  if (has_host_memory_)
    session_.host.zero_copy()->restored();
  session_.output->restore(index().consoles);
  session_.position = index().position;
  session_.calls = index().calls;
  return {};
}

status state_restore::dry_run() {
  auto ok = check_devices();
  if (ok)
    ok = images();
  if (ok)
    ok = objects(false);
  return ok ? variables() : ok;
}

} // namespace vgpu
