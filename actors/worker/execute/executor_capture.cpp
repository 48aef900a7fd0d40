// A session's state, described (schema/wire/state.capnp): at once while its
// devices stand still, or with its memory copied before, while calls are
// executed.
#include "actors/state/contents_pump.hpp"
#include "actors/state/device_wait.hpp"
#include "actors/state/snapshot_base.hpp"
#include "actors/state/state_file.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/execute/executor_shared.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

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

fault refuse(const std::string& what) {
  return {CUDA_ERROR_NOT_SUPPORTED, "the session cannot be moved: " + what};
}

} // namespace

status executor::may_go_aside() const {
  if (auto error = health_->error.load(); error != 0)
    return refuse("its work ended in CUDA error " + std::to_string(error));
  if (lost() != CUDA_SUCCESS)
    return refuse("its device is lost");
  if (living_.shares())
    return refuse("it shares GPU memory or events with another process");
  return {};
}

status executor::describable() const {
  if (auto ok = may_go_aside(); !ok)
    return ok;
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
  for (auto& state : states_)
    for (auto& [id, module] : state.modules())
      if (module.hidden_heap)
        return refuse("kernels of it call malloc, and its GPU's driver tells "
                      "nobody what they have");
  if (needs_dry_run())
    return refuse("its GPU's driver chose where its variables lie, and it was "
                  "not tried whether they would come to lie there again");
  return {};
}

// -- describing
// -------------------------------------------------------------------

status executor::describable_now() const {
  return may_stop() ? describable()
                    : refuse("a host function has not returned yet");
}

/// Memory in a device's window whose contents a state has: what is allocated,
/// arrays, variables.
std::map<device_address, std::uint64_t>
executor::contents_of(std::size_t device) const {
  auto& state = states_[device];
  auto out = state.allocations();
  for (auto& [id, module] : state.modules())
    for (auto& x : module.globals)
      if (in_window(device, x.address))
        out[x.address] = x.bytes;
  for (auto& x : kept_for_good_[device])
    out[x.address] = x.bytes;
  return out;
}

bool executor::in_window(std::size_t device, device_address x) noexcept {
  return device_at(x) == device;
}

/// Variables elsewhere: where a GPU's driver put them. Nobody tells what of
/// them changed.
std::map<device_address, std::uint64_t>
executor::outside_of_window(std::size_t device) const {
  std::map<device_address, std::uint64_t> out;
  for (auto& [id, module] : states_[device].modules())
    for (auto& x : module.globals)
      if (!in_window(device, x.address))
        out[x.address] = x.bytes;
  return out;
}

/// One capture.
struct executor::capturing {
  executor& self;
  state_writer to;
  /// What of it is in the file already, and up to date.
  snapshot_base* kept = nullptr;
  /// Not null: memory is handed over, and these are its descriptors.
  std::vector<device::shared_descriptor>* lent = nullptr;
  state_index index{};
  std::vector<std::byte> room{};
  struct piece {
    std::uint64_t address;
    std::span<std::byte> bytes;
  };
  std::vector<piece> batch{};
  std::size_t used = 0;

  status images() {
    if (kept != nullptr) {
      for (auto& [digest, image] : kept->images())
        index.images.push_back(image);
      return {};
    }
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
    // It takes as long to clear as some memory to copy: only where it is used.
    room.resize(state_batch_bytes);
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
    auto contents = self.outside_of_window(d);
    if (kept == nullptr)
      contents.merge(self.contents_of(d));
    if (lent != nullptr) {
      if (auto ok = self.lend(d, index.lent, *lent); !ok)
        return ok;
      for (auto& [address, bytes] : self.lendable_of(d))
        contents.erase(address);
    }
    for (auto& [address, bytes] : contents)
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

  void objects() {
    index.devices = static_cast<std::uint32_t>(self.devices_.size());
    index.living.assign(self.living_.calls().begin(),
                        self.living_.calls().end());
    for (std::size_t d = 0; d < self.devices_.size(); ++d)
      for (auto& [id, module] : self.states_[d].modules())
        for (auto& x : module.globals)
          index.globals.push_back(
              {static_cast<std::uint32_t>(d), id, x.name, x.address, x.bytes});
  }

  /// What decides where a driver puts variables, without any contents.
  result<std::uint64_t> run_for_dry_run() {
    index.position = self.position_;
    objects();
    if (auto ok = images(); !ok)
      return ok.why();
    return to.finish(index);
  }

  result<std::uint64_t> run() {
    index.position = self.position_;
    index.calls = self.calls();
    {
      std::lock_guard guard{self.consoles_->lock};
      index.consoles = self.consoles_->positions;
    }
    objects();
    if (kept != nullptr)
      for (auto& [address, x] : kept->pieces())
        index.memory.push_back(x.chunk);
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

result<std::uint64_t>
executor::capture(int file, bool compress,
                  std::vector<device::shared_descriptor>* lent) {
  if (auto ok = describable_now(); !ok)
    return ok.why();
  // An order that was given up may have written it until now. It keeps its
  // memory: fresh pages would take longer than what is written to them.
  if (auto ok = begin_state(file); !ok)
    return ok.why();
  capturing it{.self = *this, .to{file, compress}, .lent = lent};
  return it.run();
}

status executor::capture_for_dry_run(int file) {
  if (auto ok = begin_state(file); !ok)
    return ok.why();
  capturing it{.self = *this, .to{file, false}};
  auto bytes = it.run_for_dry_run();
  return bytes ? status{} : bytes.why();
}

// -- copying ahead
// ----------------------------------------------------------------

/// A state whose memory is copied in rounds while calls are executed: each
/// copies what changed since its last copy, and takes less time than the one
/// before as long as the program changes less than is copied meanwhile.
struct executor::copying {
  using clock = std::chrono::steady_clock;

  /// What the session stands still for, at most, if it can be had.
  static constexpr std::chrono::milliseconds rest_for{20};
  static constexpr unsigned most_rounds = 12;
  /// Of less, the rate says little.
  static constexpr std::uint64_t telling_bytes = std::uint64_t{32} << 20;

  executor& self;
  std::shared_ptr<snapshot_base> to;
  bool keeps;
  std::function<void()> ring;
  contents_pump pump{to->file(), ring};
  std::deque<contents_pump::job> todo{};
  std::vector<std::uint64_t> marks =
      std::vector<std::uint64_t>(self.devices_.size(), 1);
  bool is_marked = false;
  std::uint64_t of_round = 0; // bytes
  unsigned rounds = 0;
  clock::time_point began{};
  double bytes_a_second = 1e9;

  // Of an image that is being written.
  std::optional<state_image> image{};

  std::vector<snapshot_base::range> ranges() const {
    std::vector<snapshot_base::range> out;
    for (std::size_t d = 0; d < self.devices_.size(); ++d)
      for (auto& [first, size] : self.contents_of(d))
        for (auto address = first, bytes = size; bytes != 0;) {
          // One granule each, as changes are told of granules.
          auto piece = std::min(bytes, granule_bytes - address % granule_bytes);
          out.emplace_back(address, static_cast<std::uint32_t>(piece));
          address += piece;
          bytes -= piece;
        }
    return out;
  }

  bool tells_at_marks() const {
    return std::any_of(self.change_units_.begin(), self.change_units_.end(),
                       [](auto* x) { return x->tells_at_marks(); });
  }

  bool changed(const snapshot_base::piece& x) const {
    return x.mark == 0 ||
           self.change_units_[device_at(x.chunk.address)]->changed_since(
               x.chunk.address, x.mark);
  }

  std::uint64_t changed_bytes() const {
    std::uint64_t out = 0;
    for (auto& [address, x] : to->pieces())
      out += changed(x) ? x.chunk.bytes : 0;
    return out;
  }

  /// The marks first, and then what changed before.
  void begin_round() {
    ++rounds;
    for (std::size_t d = 0; d < marks.size(); ++d) {
      contents_pump::job mark{.from = self.change_units_[d], .marks = true};
      mark.chunk.address = window_of(d);
      pump.add(mark);
    }
    is_marked = false;
  }

  void list_changed() {
    is_marked = true;
    to->keep(ranges());
    of_round = 0;
    for (auto& [address, x] : to->pieces()) {
      if (!changed(x))
        continue;
      auto device = device_at(address);
      todo.push_back({.from = self.change_units_[device],
                      .chunk = x.chunk,
                      .mark = marks[device]});
      of_round += x.chunk.bytes;
    }
    began = clock::now();
    feed();
  }

  void feed() {
    for (; !todo.empty() && !pump.full(); todo.pop_front())
      pump.add(todo.front());
  }

  /// What was freed meanwhile is gone; at rest nothing is.
  status note(const contents_pump::job& x, bool at_rest) {
    if (x.marks)
      marks[device_at(x.chunk.address)] = x.mark;
    else if (x.done)
      to->note(x.chunk, x.mark);
    return x.seen || x.marks || at_rest ? x.done : status{};
  }

  bool has_images() const {
    return image || self.images_.size() != to->images().size();
  }

  /// One piece of an image that the file does not have yet.
  status image_on() {
    if (!image)
      for (auto& [digest, bytes] : self.images_)
        if (!to->images().contains(digest)) {
          image.emplace(state_image{digest, bytes.size(), {}});
          break;
        }
    auto& bytes = self.images_.at(image->digest);
    auto& chunks = image->chunks;
    auto at = chunks.empty() ? 0 : chunks.back().address + chunks.back().bytes;
    if (at != bytes.size()) {
      auto piece =
          std::min<std::uint64_t>(bytes.size() - at, state_chunk_bytes);
      state_chunk next{.address = at,
                       .bytes = static_cast<std::uint32_t>(piece),
                       .offset = to->place(piece)};
      if (auto ok = store_contents(to->file(), next,
                                   std::span{bytes}.subspan(at, piece));
          !ok)
        return ok;
      chunks.push_back(next);
      at += piece;
    }
    if (at == bytes.size()) {
      to->images().emplace(image->digest, std::move(*image));
      image.reset();
    }
    return {};
  }

  /// Whether the session should stand still now.
  bool is_little() {
    auto took = std::chrono::duration<double>{clock::now() - began}.count();
    if (of_round >= telling_bytes && took > 0)
      bytes_a_second = static_cast<double>(of_round) / took;
    auto rest = changed_bytes();
    auto most =
        bytes_a_second * std::chrono::duration<double>{rest_for}.count();
    // The first round takes longer than the next: its file has no pages yet.
    auto grows = rounds > 2 && rest > of_round / 4 * 3;
    return static_cast<double>(rest) <= most || rounds >= most_rounds || grows;
  }

  result<bool> go_on() {
    while (auto done = pump.take())
      if (auto ok = note(*done, false); !ok)
        return ok.why();
    feed();
    if (has_images()) {
      if (auto ok = image_on(); !ok)
        return ok.why();
      ring();
      return false;
    }
    if (pump.under_way() != 0)
      return false;
    if (is_marked)
      begin_round();
    else if (rounds > 1 && is_little())
      return true;
    else
      list_changed();
    ring();
    return false;
  }

  status drain(bool at_rest) {
    while (auto done = pump.wait()) {
      if (auto ok = note(*done, at_rest); !ok)
        return ok;
      feed();
    }
    return {};
  }

  /// At rest. What was copied for good is never asked for.
  status finish() {
    todo.clear();
    auto ok = drain(false);
    if (ok && (keeps || tells_at_marks())) {
      begin_round();
      ok = drain(true);
    }
    if (!ok)
      return ok;
    list_changed();
    ok = drain(true);
    while (ok && has_images())
      ok = image_on();
    return ok;
  }
};

bool executor::copies_ahead() const {
  return std::none_of(change_units_.begin(), change_units_.end(),
                      [](auto* x) { return x == nullptr; });
}

status executor::begin_copy(int file, bool keep, std::function<void()> ring) {
  constexpr std::size_t most_kept = 2; // of snapshots, one after the other
  copying_.reset();
  auto known = std::find_if(kept_.begin(), kept_.end(),
                            [&](auto& x) { return x->is_of(file); });
  std::shared_ptr<snapshot_base> to;
  if (known != kept_.end()) {
    to = std::move(*known);
    kept_.erase(known);
  }
  if (!to || !to->is_whole()) {
    unique_fd own{::fcntl(file, F_DUPFD_CLOEXEC, 0)};
    if (!own || ::ftruncate(own.get(), 0) != 0)
      return fault{CUDA_ERROR_OPERATING_SYSTEM,
                   std::string{"a state's file cannot be emptied: "} +
                       std::strerror(errno)};
    to = std::make_shared<snapshot_base>(std::move(own));
  }
  if (auto ok = to->begin(); !ok)
    return ok;
  if (kept_.size() >= most_kept)
    kept_.erase(kept_.begin());
  copying_ = std::make_shared<copying>(*this, to, keep, std::move(ring));
  copying_->begin_round();
  return {};
}

result<bool> executor::copy_on() {
  return copying_->go_on();
}

result<std::uint64_t> executor::finish_copy() {
  auto x = std::exchange(copying_, nullptr);
  if (auto ok = describable_now(); !ok)
    return ok.why();
  if (auto ok = x->finish(); !ok)
    return ok.why();
  capturing it{.self = *this,
               .to{x->to->file(), false, x->to->end()},
               .kept = x->to.get()};
  auto bytes = it.run();
  if (bytes && x->keeps)
    kept_.push_back(x->to);
  return bytes;
}

} // namespace vgpu
