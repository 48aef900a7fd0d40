// A session's state: described, and made again (schema/state.capnp).
#include "actors/device_wait.hpp"
#include "actors/executor.hpp"
#include "actors/executor_shared.hpp"
#include "actors/state_file.hpp"
#include "schema/call_codec.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace vgpu {

namespace {

/// Contents under way between device and file, at most.
constexpr std::uint64_t batch_bytes = std::uint64_t{32} << 20;

std::string hex(std::uint64_t x) {
  char out[32];
  std::snprintf(out, sizeof(out), "0x%llx", static_cast<unsigned long long>(x));
  return out;
}

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

fault wrong(const std::string& what) {
  return {CUDA_ERROR_INVALID_VALUE,
          "a vGPU's state contradicts itself: " + what + "; it cannot be used"};
}

} // namespace

/// Nobody waits while a state is made: calls that are executed again answer
/// here.
struct executor::unheard final : answer_sink {
  bool wanted(const waiter&) const override { return false; }
  void answer(const waiter&, CUresult, std::uint64_t) override {}
  bool keeps_digests() const override { return false; }
  result<landing> land(call::arena_range, std::uint64_t) override {
    return fault{CUDA_ERROR_INVALID_VALUE, "nobody waits for this"};
  }
  void deliver(const waiter&, CUresult, std::uint64_t, const landing&,
               std::uint64_t, std::uint32_t) override {}
  landing land_host(device_address, std::uint64_t) override { return {}; }
  void deliver_host(const waiter&, CUresult, device_address, const landing&,
                    std::uint32_t) override {}
  void call_host(const waiter&) override {}
  void print(console, std::uint64_t, std::string_view) override {}
  void sticky(CUresult) override {}
};

void executor::keep_for_good(std::size_t device, const device::global_info& x) {
  // As the cpu device names what kernels' malloc takes from.
  if (x.name == "the device heap")
    kept_for_good_[device].push_back(x);
}

void executor::when_idle(std::function<void()> then) {
  auto left = std::make_shared<std::atomic<std::size_t>>(devices_.size());
  for (auto& x : devices_)
    x->when_done(std::nullopt, [left, then](CUresult) {
      if (left->fetch_sub(1) == 1)
        then();
    });
}

/// Whether all there is can be described.
status executor::describable() const {
  auto refuse = [](const std::string& what) {
    return fault{CUDA_ERROR_NOT_SUPPORTED,
                 "the session cannot be moved: " + what};
  };
  if (auto error = health_->error.load(); error != 0)
    return refuse("its work ended in CUDA error " + std::to_string(error));
  if (lost() != CUDA_SUCCESS)
    return refuse("its device is lost");
  if (living_.shares())
    return refuse("it shares GPU memory or events with another process");
  if (!may_stop())
    return refuse("a host function has not returned yet");
  for (auto& state : states_)
    for (auto& [id, memory] : state.memories())
      if (!memory.named)
        return refuse("physical memory " + std::to_string(id.value) +
                      " is mapped, and was released");
  for (auto& state : states_)
    for (auto& [id, texture] : state.textures())
      if (!state.audit_texture(texture.what))
        return refuse("texture object " + std::to_string(id.value) +
                      " outlives its array");
  for (std::size_t d = 0; d < states_.size(); ++d)
    for (auto& [id, module] : states_[d].modules())
      for (auto& x : module.globals)
        if (x.address - (first_window + d * window_bytes) >= window_bytes)
          return refuse("its GPU's driver chose where its variables lie, and "
                        "would choose other places: " +
                        x.name + " at " + hex(x.address));
  return {};
}

/// Shows physical memory at addresses that the program does not use, and
/// calls `f(address, offset, bytes)` for one part of it after the other: it may
/// enqueue copies there.
template <class F>
status executor::look_through(std::size_t device, memory_id memory,
                              std::uint64_t bytes, F f) {
  auto& unit = *memory_units_[device];
  auto at = states_[device].free_place(bytes);
  if (!at)
    return fault{CUDA_ERROR_OUT_OF_MEMORY,
                 "no addresses are free to look at physical memory " +
                     std::to_string(memory.value)};
  if (auto ok = unit.map_memory(*at, bytes, memory); !ok)
    return ok;
  auto ok = unit.set_access(*at, bytes, memory_access::read_write);
  for (std::uint64_t offset = 0; ok && offset != bytes;) {
    auto part = std::min(bytes - offset, batch_bytes);
    ok = f(*at + offset, offset, part);
    // Also after a fault: what was enqueued before it may still run.
    auto idle = wait_for(*devices_[device], "copies of physical memory");
    if (ok)
      ok = idle;
    offset += part;
  }
  auto gone = unit.unmap_memory(*at, bytes);
  return ok ? gone : ok;
}

// -- describing
// -------------------------------------------------------------------

/// One capture.
struct executor::capturing {
  executor& self;
  state_writer to;
  state_index index{};
  std::vector<std::byte> room{};
  struct piece {
    std::uint64_t address;
    std::span<std::byte> bytes;
  };
  std::vector<piece> batch{};
  std::size_t used = 0;

  status images() {
    for (auto& [digest, bytes] : self.images_) {
      state_image out{digest, bytes.size(), {}};
      auto ok = each_piece(0, bytes.size(), [&](auto at, auto size) -> status {
        auto chunk = to.add(at, std::span{bytes}.subspan(at, size));
        if (!chunk)
          return chunk.why();
        out.chunks.push_back(*chunk);
        return {};
      });
      if (!ok)
        return ok;
      index.images.push_back(std::move(out));
    }
    return {};
  }

  status write_batch(device::device& from, std::vector<state_chunk>& into) {
    if (auto ok = wait_for(from, "copies for a state"); !ok)
      return ok;
    for (auto& x : batch) {
      auto chunk = to.add(x.address, x.bytes);
      if (!chunk)
        return chunk.why();
      into.push_back(*chunk);
    }
    batch.clear();
    used = 0;
    return {};
  }

  status memory(device::device& from, std::uint64_t address,
                std::uint64_t bytes) {
    return each_piece(address, bytes, [&](auto at, auto size) -> status {
      if (used + size > room.size())
        if (auto ok = write_batch(from, index.memory); !ok)
          return ok;
      auto into = std::span{room}.subspan(used, size);
      used += size;
      batch.push_back({at, into});
      return from.enqueue_read(legacy_stream, into, at, [](CUresult) {});
    });
  }

  status device_memory(std::size_t d) {
    auto& from = *self.devices_[d];
    auto& state = self.states_[d];
    for (auto& [address, bytes] : state.allocations())
      if (auto ok = memory(from, address, bytes); !ok)
        return ok;
    std::map<device_address, std::uint64_t> variables;
    for (auto& [id, module] : state.modules())
      for (auto& x : module.globals) {
        variables[x.address] = x.bytes;
        index.globals.push_back(
            {static_cast<std::uint32_t>(d), id, x.name, x.address, x.bytes});
      }
    for (auto& x : self.kept_for_good_[d])
      variables[x.address] = x.bytes;
    for (auto& [address, bytes] : variables)
      if (auto ok = memory(from, address, bytes); !ok)
        return ok;
    return write_batch(from, index.memory);
  }

  /// Each once, whether it is mapped several times or nowhere.
  status placed_memory(std::size_t d) {
    auto& from = *self.devices_[d];
    for (auto& [id, what] : self.states_[d].memories()) {
      state_placed out{static_cast<std::uint32_t>(d), id, {}};
      auto all = self.look_through(
          d, id, what.bytes, [&](auto at, auto offset, auto bytes) -> status {
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
      index.placed.push_back(std::move(out));
    }
    return {};
  }

  /// Pinned memory of a program elsewhere, as kernels see it here. Of one on
  /// this host it is the program's own.
  status host_memory() {
    if (self.host_shadow_.size() == 0)
      return {};
    for (auto& [number, words] : self.living_.calls()) {
      auto ok = status{};
      auto add = [&]<class Call>(const Call& x, std::uint8_t) {
        if constexpr (Call::id == call::number::host_alloc)
          ok = each_piece(x.address, x.bytes, [&](auto at, auto size) {
            auto chunk =
                to.add(at, {reinterpret_cast<const std::byte*>(at), size});
            if (!chunk)
              return status{chunk.why()};
            index.memory.push_back(*chunk);
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

  result<std::uint64_t> run() {
    index.position = self.position_;
    index.calls = self.calls();
    {
      std::lock_guard guard{self.consoles_->lock};
      index.consoles = self.consoles_->positions;
    }
    index.devices = static_cast<std::uint32_t>(self.devices_.size());
    index.living.assign(self.living_.calls().begin(),
                        self.living_.calls().end());
    room.resize(batch_bytes);
    auto ok = images();
    for (std::size_t d = 0; ok && d < self.devices_.size(); ++d) {
      auto times = self.times_[d].capture(*self.devices_[d]);
      if (!times)
        return times.why();
      for (auto& x : *times)
        index.events.emplace_back(static_cast<std::uint32_t>(d), x);
      ok = device_memory(d);
      if (ok)
        ok = placed_memory(d);
    }
    if (ok)
      ok = host_memory();
    if (!ok)
      return ok.why();
    return to.finish(index);
  }
};

result<std::uint64_t> executor::capture(int file, bool compress) {
  if (auto ok = describable(); !ok)
    return ok.why();
  capturing it{.self = *this, .to{file, compress}};
  return it.run();
}

// -- making
// -----------------------------------------------------------------------

struct executor::restoring {
  executor& self;
  state_reader from;
  std::uint64_t under_way = 0;

  const state_index& index() const { return from.index(); }

  status images() {
    for (auto& x : index().images) {
      std::vector<std::byte> bytes(x.bytes);
      for (auto& part : x.chunks)
        if (auto ok = from.read(
                part, std::span{bytes}.subspan(part.address, part.bytes));
            !ok)
          return ok;
      // Perhaps its last parts are still to come: their digest is checked then.
      self.images_.insert_or_assign(x.digest, std::move(bytes));
    }
    return {};
  }

  /// A state may have lain where its program can write: it is made of what a
  /// state is made of, and of no other work.
  static status check_kept(std::uint64_t number,
                           std::span<const std::uint64_t> words) {
    auto kept = false;
    auto look = [&]<class Call>(const Call&, std::uint8_t) {
      kept = living_calls::keeps<Call>();
    };
    if (auto ok = call::decode(words, look); !ok)
      return ok;
    if (!kept)
      return wrong("call " + std::to_string(number) + " leaves nothing behind");
    return {};
  }

  status objects() {
    for (auto& [number, words] : index().living) {
      if (auto ok = check_kept(number, words); !ok)
        return ok;
      record what{.call = {number},
                  .end = number,
                  .slot = 0,
                  .message = words,
                  .payload = {}};
      if (auto ok = self.perform(what, nullptr, false).outcome; !ok)
        return fault{ok.code(),
                     "call " + std::to_string(number) +
                         " cannot be made again here: " + ok.why().what};
    }
    return {};
  }

  /// Programs hold addresses of variables, and may have stored them anywhere.
  status variables() {
    for (auto& x : index().globals) {
      if (x.device >= self.states_.size() ||
          !self.states_[x.device].audit(call::live<module_id>{x.module}))
        return wrong("a variable of a module that is not there");
      auto& there = self.states_[x.device].module(x.module).globals;
      auto found = std::find_if(there.begin(), there.end(), [&](auto& y) {
        return y.name == x.name && y.address == x.address && y.bytes == x.bytes;
      });
      if (found == there.end())
        return fault{CUDA_ERROR_NOT_SUPPORTED,
                     "variable " + x.name + " of the program lies at " +
                         hex(x.address) +
                         ", and this device puts it elsewhere; restore the "
                         "session on a device of the former kind"};
    }
    return {};
  }

  /// Whose memory it is, and whether that is zero as it was allocated.
  struct target {
    std::size_t device;
    bool fresh;
  };
  std::optional<target> find(const state_chunk& x) const {
    for (std::size_t d = 0; d < self.states_.size(); ++d) {
      auto& state = self.states_[d];
      auto base = first_window + d * window_bytes;
      if (x.address < base || x.address - base >= window_bytes)
        continue;
      for (auto& kept : self.kept_for_good_[d])
        if (x.address >= kept.address && x.bytes <= kept.bytes &&
            x.address - kept.address <= kept.bytes - x.bytes)
          return target{d, false};
      if (!state.holds(x.address, x.bytes))
        return std::nullopt;
      auto array = std::any_of(
          state.arrays().begin(), state.arrays().end(), [&](auto& y) {
            return x.address >= y.second.address &&
                   x.address - y.second.address < y.second.bytes;
          });
      return target{d, !array && x.address - base < device_placed_offset};
    }
    return std::nullopt;
  }

  status host_chunk(const state_chunk& x) {
    if (x.bytes > self.host_bytes_ ||
        x.address - host_window > self.host_bytes_ - x.bytes)
      return wrong("host memory outside of its window");
    // Of a program on this host it is the program's own, and newer.
    if (self.host_shadow_.size() == 0 || x.form == chunk_form::zero)
      return {};
    return from.read(x, {reinterpret_cast<std::byte*>(x.address), x.bytes});
  }

  status chunk(const state_chunk& x) {
    if (x.address >= host_window)
      return host_chunk(x);
    auto where = find(x);
    if (!where)
      return wrong("contents at " + hex(x.address) +
                   ", where nothing is allocated");
    if (where->fresh && x.form == chunk_form::zero)
      return {};
    auto bytes = std::make_shared<std::vector<std::byte>>(x.bytes);
    if (auto ok = from.read(x, *bytes); !ok)
      return ok;
    auto& to = *self.devices_[where->device];
    if (auto ok = to.enqueue_write(legacy_stream, x.address, *bytes, bytes);
        !ok)
      return ok;
    under_way += x.bytes;
    if (under_way < batch_bytes)
      return {};
    under_way = 0;
    return wait_for(to, "copies of a state");
  }

  status memory() {
    for (auto& x : index().memory)
      if (auto ok = chunk(x); !ok)
        return ok;
    return {};
  }

  /// Into memory that was just made, and is zero.
  status placed_memory(const state_placed& x) {
    if (x.device >= self.states_.size() ||
        !self.states_[x.device].audit(call::live<memory_id>{x.memory}))
      return wrong("contents of physical memory that is not there");
    auto& to = *self.devices_[x.device];
    auto bytes = self.states_[x.device].memories().at(x.memory).bytes;
    auto next = x.chunks.begin();
    auto all = self.look_through(
        x.device, x.memory, bytes,
        [&](auto at, auto offset, auto part) -> status {
          for (; next != x.chunks.end() && next->address < offset + part;
               ++next) {
            auto begin = next->address - offset;
            if (next->address < offset || next->bytes > part - begin)
              return wrong("a chunk that lies across parts of physical memory");
            auto contents =
                std::make_shared<std::vector<std::byte>>(next->bytes);
            if (auto ok = from.read(*next, *contents); !ok)
              return ok;
            if (auto ok = to.enqueue_write(legacy_stream, at + begin, *contents,
                                           contents);
                !ok)
              return ok;
          }
          return {};
        });
    if (all && next != x.chunks.end())
      return wrong("contents behind the end of physical memory");
    return all;
  }

  status placed_memories() {
    for (auto& x : index().placed)
      if (auto ok = placed_memory(x); !ok)
        return ok;
    return {};
  }

  status events() {
    for (std::size_t d = 0; d < self.devices_.size(); ++d) {
      std::vector<event_time> past;
      for (auto& [device, x] : index().events)
        if (device == d)
          past.push_back(x);
      if (auto ok = self.times_[d].restore(*self.devices_[d], past); !ok)
        return ok;
      if (auto ok = wait_for(*self.devices_[d], "copies of a state"); !ok)
        return ok;
    }
    return {};
  }

  status run() {
    if (index().devices != self.devices_.size())
      return fault{CUDA_ERROR_INVALID_DEVICE,
                   "a vGPU's state is of " + std::to_string(index().devices) +
                       " devices, and here are " +
                       std::to_string(self.devices_.size())};
    auto ok = images();
    if (ok)
      ok = objects();
    if (ok)
      ok = variables();
    if (ok)
      ok = memory();
    if (ok)
      ok = placed_memories();
    if (ok)
      ok = events();
    if (ok && self.error() != CUDA_SUCCESS)
      ok = fault{self.error(), "a state's calls ended in an error here"};
    return ok;
  }
};

result<std::uint64_t> executor::restore(int file) {
  auto from = state_reader::open(file);
  if (!from)
    return from.why();
  auto before = std::exchange(sink_, std::make_shared<unheard>());
  restoring it{.self = *this, .from = std::move(*from)};
  auto ok = it.run();
  sink_ = std::move(before);
  if (!ok)
    return ok.why();
  {
    std::lock_guard guard{consoles_->lock};
    consoles_->positions = it.index().consoles;
  }
  position_ = it.index().position;
  calls_ = it.index().calls;
  return position_;
}

} // namespace vgpu
