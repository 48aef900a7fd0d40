// A session's state, made again (schema/wire/state.capnp).
#include "actors/state/device_wait.hpp"
#include "actors/state/state_file.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/execute/executor_shared.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace vgpu {

namespace {

fault wrong(const std::string& what) {
  return {CUDA_ERROR_INVALID_VALUE,
          "a vGPU's state contradicts itself: " + what + "; it cannot be used"};
}

} // namespace

void executor::keep_for_good(std::size_t device, const device::global_info& x) {
  // As the cpu device names what kernels' malloc takes from.
  if (x.name == "the device heap")
    kept_for_good_[device].push_back(x);
}

void executor::note_places(std::size_t device, call_number at,
                           std::span<const device::global_info> variables) {
  if (std::ranges::any_of(
          variables, [&](auto& x) { return !in_window(device, x.address); }))
    driver_placed_ = at.value;
}

status executor::await_known() {
  // Whoever waits for this worker gives up before.
  constexpr std::chrono::minutes patience{10};
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    auto stream = orders_[d].host_stream(*devices_[d]);
    if (!stream)
      return stream.why();
    if (auto ok = wait_for(*devices_[d], "work that a program had waited for",
                           patience, *stream);
        !ok)
      return ok;
  }
  return {};
}

void executor::when_idle(std::function<void()> then) {
  auto left = std::make_shared<std::atomic<std::size_t>>(devices_.size());
  for (auto& x : devices_)
    x->when_done(std::nullopt, [left, then](CUresult) {
      if (left->fetch_sub(1) == 1)
        then();
    });
}

// -- making
// -----------------------------------------------------------------------

struct executor::restoring {
  executor& self;
  state_reader from;
  /// Memory may become what lies in this file; -1 where it may not.
  int adopted = -1;
  /// Of index().lent.
  std::vector<unique_fd> lent{};
  std::uint64_t under_way = 0;
  std::vector<state_chunk> to_adopt{};
  /// Variables there, of each device.
  std::vector<std::map<device_address, std::uint64_t>> outside{};
  bool has_host_memory = false; // which is the worker's own copy

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

  /// Memory has addresses of its own: what is made besides decides where a
  /// driver puts variables.
  static bool is_memory(std::span<const std::uint64_t> words) {
    auto memory = false;
    (void)call::decode(words, [&]<class Call>(const Call&, std::uint8_t) {
      using call::number;
      memory =
          Call::id == number::mem_alloc || Call::id == number::host_alloc ||
          Call::id == number::memory_create || Call::id == number::memory_map ||
          Call::id == number::memory_access ||
          Call::id == number::condition_words ||
          Call::id == number::texture_create ||
          Call::id == number::texture_known;
    });
    return memory;
  }

  status objects(bool memory_too = true) {
    for (auto& [number, words] : index().living) {
      if (auto ok = check_kept(number, words); !ok)
        return ok;
      if (!memory_too && is_memory(words))
        continue;
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
      auto found = std::find_if(there.begin(), there.end(),
                                [&](auto& y) { return y.name == x.name; });
      if (found == there.end() || found->bytes != x.bytes)
        return fault{CUDA_ERROR_NOT_SUPPORTED,
                     "variable " + x.name + " of the program has " +
                         std::to_string(x.bytes) +
                         " bytes, and is another one here"};
      if (found->address != x.address)
        return fault{CUDA_ERROR_NOT_SUPPORTED,
                     "variable " + x.name + " of the program lies at " +
                         hex_of(x.address) + ", and this device puts it at " +
                         hex_of(found->address)};
    }
    return {};
  }

  static bool lies_in(const std::map<device_address, std::uint64_t>& ranges,
                      const state_chunk& x) {
    auto next = ranges.upper_bound(x.address);
    if (next == ranges.begin())
      return false;
    auto& [address, bytes] = *std::prev(next);
    return x.bytes <= bytes && x.address - address <= bytes - x.bytes;
  }

  /// Whose memory it is, and whether that is zero as it was allocated.
  struct target {
    std::size_t device;
    bool fresh;
  };
  std::optional<target> find(const state_chunk& x) const {
    for (std::size_t d = 0; d < self.states_.size(); ++d) {
      auto& state = self.states_[d];
      auto base = window_of(d);
      if (!in_window(d, x.address)) {
        if (lies_in(outside[d], x))
          return target{d, false};
        continue;
      }
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
    if (!is_within_host_window(x.address, x.bytes, self.host_bytes_))
      return wrong("host memory outside of its window");
    // Of a program on this host it is the program's own, and newer.
    if (self.host_shadow_.size() == 0)
      return {};
    has_host_memory = true;
    if (x.form == chunk_form::zero)
      return {};
    return from.read(x, {reinterpret_cast<std::byte*>(x.address), x.bytes});
  }

  status chunk(const state_chunk& x) {
    if (in_host_window(x.address))
      return host_chunk(x);
    auto where = find(x);
    if (!where)
      return wrong("contents at " + hex_of(x.address) +
                   ", where nothing is allocated");
    if (where->fresh && x.form == chunk_form::zero)
      return {};
    if (may_adopt(x, where->device)) {
      to_adopt.push_back(x);
      return {};
    }
    return write(x, where->device);
  }

  status write(const state_chunk& x, std::size_t device) {
    auto bytes = std::make_shared<std::vector<std::byte>>(x.bytes);
    if (auto ok = from.read(x, *bytes); !ok)
      return ok;
    auto& to = *self.devices_[device];
    if (auto ok = to.enqueue_write(legacy_stream, x.address, *bytes, bytes);
        !ok)
      return ok;
    under_way += x.bytes;
    if (under_way < state_batch_bytes)
      return {};
    under_way = 0;
    return wait_for(to, "copies of a state");
  }

  bool may_adopt(const state_chunk& x, std::size_t device) const {
    constexpr std::uint64_t page = 4096;
    return adopted >= 0 && self.file_units_[device] != nullptr &&
           x.form == chunk_form::raw && x.bytes == granule_bytes &&
           x.address % granule_bytes == 0 && x.offset % page == 0;
  }

  /// The state's file becomes memory, in as few pieces as it lies there.
  status adopt() {
    if (!to_adopt.empty())
      for (auto& device : self.devices_)
        if (auto ok = wait_for(*device, "copies of a state"); !ok)
          return ok;
    for (auto first = to_adopt.begin(); first != to_adopt.end();) {
      auto end = std::next(first);
      while (end != to_adopt.end() &&
             end->address - first->address == end->offset - first->offset &&
             end->address == std::prev(end)->address + granule_bytes)
        ++end;
      auto device = device_at(first->address);
      auto bytes = static_cast<std::uint64_t>(end - first) * granule_bytes;
      auto ok = self.file_units_[device]->adopt(first->address, bytes, adopted,
                                                first->offset);
      // Then it is copied, as any other.
      for (; !ok && first != end; ++first)
        if (auto written = write(*first, device); !written)
          return written;
      first = end;
    }
    return {};
  }

  status memory() {
    for (auto& x : index().memory)
      if (auto ok = chunk(x); !ok)
        return ok;
    if (auto ok = adopt(); !ok)
      return ok;
    if (lent.size() != index().lent.size())
      return wrong("memory is to come along, and does not");
    for (std::size_t i = 0; i < lent.size(); ++i)
      if (auto ok = self.take_lent(index().lent[i], std::move(lent[i])); !ok)
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
    return ok ? contents() : ok;
  }

  status dry_run() {
    auto ok = images();
    if (ok)
      ok = objects(false);
    return ok ? variables() : ok;
  }

  status contents() {
    for (std::size_t d = 0; d < self.devices_.size(); ++d)
      outside.push_back(self.outside_of_window(d));
    auto ok = memory();
    if (ok)
      ok = placed_memories();
    if (ok)
      ok = events();
    if (ok && self.error() != CUDA_SUCCESS)
      ok = fault{self.error(), "a state's calls ended in an error here"};
    return ok;
  }
};

status executor::dry_run(int file) {
  auto from = state_reader::open(file);
  if (!from)
    return from.why();
  sink_ = std::make_shared<unheard>();
  restoring it{.self = *this, .from = std::move(*from)};
  return it.dry_run();
}

result<std::uint64_t> executor::restore(int file, bool adopt,
                                        std::vector<unique_fd> lent) {
  auto from = state_reader::open(file);
  if (!from)
    return from.why();
  auto before = std::exchange(sink_, std::make_shared<unheard>());
  restoring it{.self = *this,
               .from = std::move(*from),
               .adopted = adopt && lies_in_memory(file) ? file : -1,
               .lent = std::move(lent)};
  auto ok = it.run();
  sink_ = std::move(before);
  if (!ok)
    return ok.why();
  if (it.has_host_memory)
    zero_copy_->restored();
  {
    std::lock_guard guard{consoles_->lock};
    consoles_->positions = it.index().consoles;
  }
  position_ = it.index().position;
  calls_ = it.index().calls;
  return position_;
}

} // namespace vgpu
