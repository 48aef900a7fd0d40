#include "actors/worker/execute/state_capture.hpp"

#include "actors/link/log.hpp"
#include "actors/state/device_wait.hpp"
#include "actors/worker/execute/memory_lending.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace vgpu {

namespace {

/// Calls `f(address, bytes)` for each piece of a range.
template <class F>
status each_piece(std::uint64_t address, std::uint64_t bytes, F f) {
  while (bytes != 0) {
    auto piece = std::min(bytes, state_chunk_bytes);
    if (auto ok = f(address, piece); !ok)
      return ok;
    address += piece;
    bytes -= piece;
  }
  return {};
}

fault cannot_move(const std::string& what) {
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                    "the session cannot be moved: " + what);
}

status describable(const vgpu_state& state) {
  for (auto& [id, memory] : state.memories())
    if (!memory.named)
      return cannot_move("physical memory " + std::to_string(id.value) +
                         " is mapped, and was released");
  for (auto& [id, texture] : state.textures())
    if (!state.audit_texture(texture.what))
      return cannot_move("texture object " + std::to_string(id.value) +
                         " outlives its array");
  for (auto& [id, module] : state.modules())
    if (module.hidden_heap)
      return cannot_move("its kernels call malloc, and its GPU's driver "
                         "does not report what they allocated");
  return {};
}

} // namespace

status may_checkpoint_process(const session_objects& session) {
  if (auto error = session.health->error(); error != CUDA_SUCCESS)
    return cannot_move("its work ended in CUDA error " +
                       std::to_string(static_cast<int>(error)));
  if (session.health->lost() != CUDA_SUCCESS)
    return cannot_move("its device is lost");
  if (session.living.shares())
    return cannot_move("it shares GPU memory or events with another process");
  return {};
}

status describable(const session_objects& session) {
  if (auto ok = may_checkpoint_process(session); !ok)
    return ok;
  for (auto& slot : session.devices)
    if (auto ok = describable(slot.state); !ok)
      return ok;
  if (session.needs_dry_run())
    return cannot_move(
        "its GPU's driver chose where its variables lie, and no dry run has "
        "shown that they would lie there again");
  return {};
}

status describable_now(const session_objects& session) {
  return session.may_stop() ? describable(session)
                            : cannot_move("a host function has not returned "
                                          "yet");
}

// -- the index ----------------------------------------------------------------

void state_capture::objects() {
  index_.position = session_.position;
  index_.devices = static_cast<std::uint32_t>(session_.devices.size());
  index_.living.assign(session_.living.calls().begin(),
                       session_.living.calls().end());
  for (auto& slot : session_.devices)
    for (auto& [id, module] : slot.state.modules())
      for (auto& x : module.globals)
        index_.globals.push_back({static_cast<std::uint32_t>(slot.ordinal), id,
                                  x.name, x.address, x.bytes});
}

result<bool> state_capture::images_on() {
  if (!image_) {
    auto next = std::ranges::find_if(session_.images, [&](auto& x) {
      return !written_images_.contains(x.first);
    });
    if (next == session_.images.end())
      return true;
    image_.emplace(state_image{next->first, next->second.size(), {}});
  }
  auto& chunks = image_->chunks;
  auto at = chunks.empty() ? 0 : chunks.back().address + chunks.back().bytes;
  if (auto size = std::min(image_->bytes - at, state_chunk_bytes); size != 0) {
    auto from = session_.images.find(image_->digest);
    if (from == session_.images.end() || from->second.size() < at + size)
      return cannot_move("the program sends an image again");
    auto chunk = to_.add(at, std::span{from->second}.subspan(at, size));
    if (!chunk)
      return chunk.why();
    chunks.push_back(*chunk);
    at += size;
  }
  if (at == image_->bytes) {
    written_images_.insert(image_->digest);
    index_.images.push_back(std::move(*image_));
    image_.reset();
  }
  return false;
}

status state_capture::images() {
  if (base_ != nullptr) {
    for (auto& [digest, known] : base_->images())
      index_.images.push_back(known);
    return {};
  }
  for (;;)
    if (auto done = images_on(); !done)
      return done.why();
    else if (*done)
      return {};
}

status state_capture::events(device_slot& slot) {
  auto times = slot.times.capture(*slot.device);
  if (!times)
    return times.why();
  for (auto& x : *times)
    index_.events.emplace_back(static_cast<std::uint32_t>(slot.ordinal), x);
  return {};
}

// -- memory -------------------------------------------------------------------

status state_capture::write_batch(device::device& from,
                                  std::vector<state_chunk>& into) {
  if (auto ok = wait_for(from, "copies for a state"); !ok)
    return ok;
  for (auto& x : batch_) {
    auto chunk = to_.add(x.address, x.bytes);
    if (!chunk)
      return chunk.why();
    into.push_back(*chunk);
  }
  batch_.clear();
  used_ = 0;
  return {};
}

/// Makes room for contents. Clearing it would take as long as copying some.
void state_capture::allocate_room() {
  if (!room_)
    room_ = std::make_unique_for_overwrite<std::byte[]>(state_batch_bytes);
}

status state_capture::memory(device::device& from, std::uint64_t address,
                             std::uint64_t bytes) {
  allocate_room();
  return each_piece(address, bytes, [&](auto at, auto size) -> status {
    if (used_ + size > state_batch_bytes)
      if (auto ok = write_batch(from, index_.memory); !ok)
        return ok;
    std::span into{room_.get() + used_, size};
    used_ += size;
    batch_.push_back({at, into});
    return from.enqueue_read(legacy_stream, into, at, [](CUresult) {});
  });
}

status state_capture::device_memory(device_slot& slot) {
  auto contents = slot.outside_of_window();
  if (base_ == nullptr)
    contents.merge(slot.contents());
  if (lent_ != nullptr) {
    if (auto ok = lend_memory(slot, index_.lent, *lent_); !ok)
      return ok;
    for (auto& [address, bytes] : slot.lendable())
      contents.erase(address);
  }
  if (base_ != nullptr)
    return memory_together(slot, contents);
  for (auto& [address, bytes] : contents)
    if (auto ok = memory(*slot.device, address, bytes); !ok)
      return ok;
  return write_batch(*slot.device, index_.memory);
}

/// Reads many small ranges, as modules' variables are. The device has a base,
/// so it has a change unit. What fits into one batch is written by finish(),
/// when calls are executed again.
status state_capture::memory_together(device_slot& slot,
                                      const memory_ranges& all) {
  // Nothing below notices that the work before ended in an error.
  if (auto ok = wait_for(*slot.device, "the work before a state"); !ok)
    return ok;
  std::vector<range> batch;
  std::size_t bytes = 0;
  auto add = [&](auto at, auto size) -> status {
    if (bytes + size > state_batch_bytes) {
      if (auto ok = read_together(slot, std::exchange(batch, {}), bytes); !ok)
        return ok;
      bytes = 0;
    }
    batch.push_back({at, size});
    bytes += size;
    return {};
  };
  for (auto& [address, size] : all)
    if (auto ok = each_piece(address, size, add); !ok)
      return ok;
  return read_together(slot, batch, bytes);
}

status state_capture::read_together(device_slot& slot,
                                    const std::vector<range>& what,
                                    std::size_t bytes) {
  if (auto ok = write_seen(); !ok)
    return ok;
  seen_room_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  auto* at = seen_room_.get();
  for (auto& x : what) {
    seen_.push_back({x.address, {at, x.bytes}, {}});
    at += x.bytes;
  }
  slot.can.change->read_at_rest(seen_);
  for (auto& x : seen_)
    if (!x.outcome)
      return x.outcome;
  return {};
}

status state_capture::write_seen() {
  for (auto& x : std::exchange(seen_, {})) {
    auto chunk = to_.add(x.from, x.into);
    if (!chunk)
      return chunk.why();
    index_.memory.push_back(*chunk);
  }
  return {};
}

/// Describes physical memory once, even if it is mapped several times or not at
/// all.
status state_capture::placed_memory(device_slot& slot) {
  auto& from = *slot.device;
  for (auto& [id, what] : slot.state.memories()) {
    state_placed out{static_cast<std::uint32_t>(slot.ordinal), id, {}};
    auto all = slot.look_through(
        id, what.bytes, [&](auto at, auto offset, auto bytes) -> status {
          std::vector<state_chunk> chunks;
          if (auto ok = memory(from, at, bytes); !ok)
            return ok;
          if (auto ok = write_batch(from, chunks); !ok)
            return ok;
          for (auto& x : chunks) {
            x.address = x.address - at + offset;
            if (x.form != chunk_form::zero)
              out.chunks.push_back(x);
          }
          return {};
        });
    if (!all)
      return all;
    index_.placed.push_back(std::move(out));
  }
  return {};
}

/// Describes the pinned memory of a program elsewhere, as kernels see it here.
/// A program on this host has its own.
status state_capture::host_memory() {
  if (!session_.host.is_shadow())
    return {};
  for (auto& [number, words] : session_.living.calls()) {
    auto ok = status{};
    auto add = [&]<class Call>(const Call& x, std::uint8_t) {
      if constexpr (Call::id == call::number::host_alloc)
        ok = each_piece(x.address, x.bytes, [&](auto at, auto size) {
          auto chunk =
              to_.add(at, {reinterpret_cast<const std::byte*>(at), size});
          if (!chunk)
            return status{chunk.why()};
          index_.memory.push_back(*chunk);
          return status{};
        });
    };
    if (auto decoded = call::decode(words, add); !decoded)
      return decoded;
    if (!ok)
      return ok;
  }
  return {};
}

// -- the whole state ----------------------------------------------------------

result<std::uint64_t> state_capture::run_for_dry_run() {
  objects();
  if (auto ok = images(); !ok)
    return ok.why();
  return to_.finish(index_);
}

result<std::uint64_t> state_capture::run() {
  auto ok = describe();
  return ok ? finish() : ok.why();
}

status state_capture::describe() {
  index_.calls = session_.calls;
  index_.consoles = session_.output->printed();
  objects();
  auto began = std::chrono::steady_clock::now();
  auto ok = images();
  for (auto& slot : session_.devices) {
    if (ok)
      ok = events(slot);
    if (ok)
      ok = device_memory(slot);
    if (ok)
      ok = placed_memory(slot);
  }
  if (ok)
    ok = host_memory();
  spdlog::debug("{} calls and {} pieces outside of what is copied ahead were "
                "described in {} us",
                index_.living.size(), seen_.size(),
                (std::chrono::steady_clock::now() - began) /
                    std::chrono::microseconds{1});
  return ok;
}

result<std::uint64_t> state_capture::finish() {
  if (auto ok = write_seen(); !ok)
    return ok.why();
  if (base_ != nullptr) {
    std::vector<state_chunk> all;
    all.reserve(base_->pieces().size() + index_.memory.size());
    for (auto& [address, x] : base_->pieces())
      all.push_back(x.chunk);
    all.insert(all.end(), index_.memory.begin(), index_.memory.end());
    index_.memory = std::move(all);
  }
  return to_.finish(index_);
}

} // namespace vgpu
