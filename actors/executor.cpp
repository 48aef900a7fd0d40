#include "actors/executor.hpp"

#include "actors/audit.hpp"
#include "actors/facts.hpp"
#include "schema/call_codec.hpp"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <optional>

#include <sys/mman.h>

namespace vgpu {

// -- what outlives a call
// -------------------------------------------------------

std::shared_ptr<const void>
payload_pins::pin(std::shared_ptr<payload_pins> self, std::uint64_t position,
                  std::shared_ptr<const void> owner) {
  {
    std::lock_guard guard{self->lock_};
    self->held_.insert(position);
  }
  auto release = [self, position, owner](const void*) mutable {
    std::lock_guard guard{self->lock_};
    self->held_.erase(self->held_.find(position));
    owner.reset();
  };
  // Not null, so that its emptiness is not mistaken for "nothing held".
  return {static_cast<const void*>(self.get()), std::move(release)};
}

std::uint64_t payload_pins::advance(std::uint64_t position) {
  std::lock_guard guard{lock_};
  position_ = std::max(position_, position);
  return held_.empty() ? position_ : std::min(position_, *held_.begin());
}

/// Host functions whose turn has come or that are done, by call number. What a
/// replay finds done goes on at once: the program ran it in an earlier life of
/// the worker.
struct executor::host_calls {
  std::mutex lock;
  std::map<std::uint64_t, std::function<void()>> going;
  std::set<std::uint64_t> done;

  void begin(call_number call, std::function<void()> go_on) {
    {
      std::lock_guard guard{lock};
      if (done.erase(call.value) == 0) {
        going.emplace(call.value, std::move(go_on));
        return;
      }
    }
    go_on();
  }

  void finish(std::uint64_t call) {
    std::function<void()> go_on;
    {
      std::lock_guard guard{lock};
      auto i = going.find(call);
      if (i == going.end()) {
        done.insert(call);
        return;
      }
      go_on = std::move(i->second);
      going.erase(i);
    }
    go_on();
  }
};

/// Gives a kernel's text its place among all the session's text.
struct executor::consoles {
  std::mutex lock;
  std::array<std::uint64_t, console_count> positions{};
  std::shared_ptr<answer_sink> sink;

  void print(console where, std::string_view text) {
    std::lock_guard guard{lock};
    auto& position = positions[static_cast<std::size_t>(where)];
    if (sink)
      sink->print(where, position, text);
    position += text.size();
  }
};

/// The errors that the devices ended in. Thread-safe.
struct executor::health {
  std::atomic<std::uint32_t> error{0}; // the program's own
  std::atomic<std::uint32_t> lost{0};  // the device's
  std::function<void()> when_lost = [] {};

  static bool is_loss(CUresult result) {
    return result == CUDA_ERROR_DEVICE_UNAVAILABLE ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE ||
           result == CUDA_ERROR_NVLINK_UNCORRECTABLE;
  }

  /// Notes how something ended. False where the program must not be told.
  bool note(answer_sink& sink, CUresult result) {
    std::uint32_t none = 0;
    auto code = static_cast<std::uint32_t>(result);
    if (is_loss(result)) {
      if (lost.compare_exchange_strong(none, code))
        when_lost();
      return false;
    }
    if (result != CUDA_SUCCESS && error.compare_exchange_strong(none, code))
      sink.sticky(result);
    return lost.load() == 0;
  }
};

// -- dispatch
// ---------------------------------------------------------------------

/// One call on its device. A status that is not ok is the program's error.
struct call_dispatch {
  executor& self;
  const record& what;
  std::shared_ptr<const void> owner;
  std::size_t ordinal = 0;

  device::device& dev() { return *self.devices_[ordinal]; }
  vgpu_state& state() { return self.states_[ordinal]; }
  stream_order& order() { return self.orders_[ordinal]; }
  waiter who() const { return {what.slot, what.call}; }

  /// Before anything is enqueued in a stream.
  template <class Call>
  status join(const Call& x) {
    if constexpr (requires { x.stream.id; } &&
                  Call::id != call::number::stream_create &&
                  Call::id != call::number::stream_destroy)
      return order().join(dev(), x.stream.id, state().streams());
    else
      return {};
  }

  /// After a copy or memset: programs rely on the synchronous forms, which use
  /// the legacy stream, being done before whatever they enqueue next, also in
  /// streams that do not wait for the legacy stream.
  void settle(stream_id stream) {
    if (stream == legacy_stream)
      order().after_legacy();
  }

  /// Answers this call when the device is done with what it waits for.
  device::completion completion() const {
    return [sink = self.sink_, health = self.health_,
            who = who()](CUresult result) {
      if (health->note(*sink, result))
        sink->answer(who, result, 0);
    };
  }

  // -- audit of addresses

  status audit_box(const call::box& box, const call::extent& size) {
    auto bytes = span_of(box, size);
    if (!bytes)
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "a copy's pitch is smaller than its rows"};
    if (*bytes == 0)
      return {};
    for (auto& state : self.states_)
      if (state.holds(box.address, *bytes))
        return {};
    if (in_host(box.address, *bytes))
      return {};
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a copy of " + std::to_string(*bytes) + " bytes at " +
                     std::to_string(box.address) +
                     " leaves what was allocated"};
  }

  bool in_host(device_address address, std::uint64_t bytes) const {
    return address >= host_window && bytes <= self.host_bytes_ &&
           address - host_window <= self.host_bytes_ - bytes;
  }

  static std::uint64_t rows(const call::extent& size) {
    return size.height * size.depth;
  }

  static device::pitched pitched(const call::box& x) {
    return {x.address, x.pitch, x.slice};
  }
  static device::extent extent(const call::extent& x) {
    return {x.width, x.height, x.depth};
  }

  /// Calls `f(address, offset)` for each row of a box; offset is the row's
  /// place in its bytes without gaps. Rows that follow each other without gaps
  /// are one row.
  template <class F>
  static status each_row(const call::box& box, const call::extent& size, F f) {
    if (size.width == 0 || rows(size) == 0)
      return {};
    auto flat = (size.height == 1 || box.pitch == size.width) &&
                (size.depth == 1 || box.slice == size.width * size.height);
    if (flat)
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

  status operator()(const call::mem_alloc& x) {
    if (auto ok = state().audit_alloc(x.address, x.bytes); !ok)
      return ok;
    if (auto ok = map_memory(x.address, x.bytes); !ok)
      return ok;
    self.used_ += x.bytes;
    return {};
  }

  status map_memory(device_address address, std::uint64_t bytes) {
    for (auto& run : state().allocate(address, bytes)) {
      auto ok = dev().map(run.address, run.bytes);
      if (ok.code() == CUDA_ERROR_OUT_OF_MEMORY && wait_for_device())
        ok = dev().map(run.address, run.bytes);
      if (!ok)
        return ok;
    }
    return {};
  }

  status unmap_memory(device_address address, std::uint64_t bytes) {
    for (auto& run : state().release(address, bytes))
      if (auto ok = dev().unmap(run.address, run.bytes); !ok)
        return ok;
    return {};
  }

  /// Freed memory is given back when the work that may use it is done: an
  /// allocation that finds none left waits for that, as cuMemFree does on a
  /// GPU.
  bool wait_for_device() {
    struct gate {
      std::mutex lock;
      std::condition_variable changed;
      bool open = false;
    };
    auto done = std::make_shared<gate>();
    dev().when_done(std::nullopt, [done](CUresult) {
      std::lock_guard guard{done->lock};
      done->open = true;
      done->changed.notify_one();
    });
    std::unique_lock guard{done->lock};
    return done->changed.wait_for(guard, std::chrono::seconds{10},
                                  [&] { return done->open; });
  }

  status operator()(const call::mem_free& x) {
    if (auto ok = state().audit_free(x.address, x.bytes); !ok)
      return ok;
    // What is allocated next may lie at the same addresses: it must not be
    // touched before the work that used them is done, whatever its stream.
    order().after_all();
    if (auto ok = unmap_memory(x.address, x.bytes); !ok)
      return ok;
    self.used_ -= x.bytes;
    return {};
  }

  status operator()(const call::host_alloc& x) {
    if (!in_host(x.address, x.bytes))
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "pinned memory does not lie in the host window"};
    return dev().attach_host(x.address, x.bytes);
  }

  status operator()(const call::host_free& x) {
    if (!in_host(x.address, x.bytes))
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "pinned memory does not lie in the host window"};
    return dev().detach_host(x.address, x.bytes);
  }

  // -- arrays, textures and surfaces

  /// Null where the device has none; then the call was refused.
  device::texture_unit* unit() { return self.texture_units_[ordinal]; }

  static fault no_unit() {
    return {CUDA_ERROR_NOT_SUPPORTED, "this device has no arrays or textures"};
  }

  status operator()(const call::array_create& x) {
    if (unit() == nullptr)
      return no_unit();
    auto layout = layout_of(x.shape);
    if (!layout || layout->bytes != x.bytes)
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "an array's size does not match its shape"};
    if (auto ok = state().audit_alloc(x.address, x.bytes); !ok)
      return ok;
    if (!unit()->arrays_in_memory())
      state().reserve(x.address, x.bytes);
    else if (auto ok = map_memory(x.address, x.bytes); !ok)
      return ok;
    state().add(x.array.id, {x.address, x.bytes, x.shape});
    self.used_ += x.bytes;
    auto ok = unit()->create_array(x.array.id, x.shape, x.address);
    if (ok.code() == CUDA_ERROR_OUT_OF_MEMORY && wait_for_device())
      ok = unit()->create_array(x.array.id, x.shape, x.address);
    return ok;
  }

  status operator()(const call::array_destroy& x) {
    auto gone = state().arrays().at(x.array.id);
    order().after_all(); // as mem_free
    if (auto ok = unit()->destroy_array(x.array.id); !ok)
      return ok;
    state().remove(x.array.id);
    self.used_ -= gone.bytes;
    if (unit()->arrays_in_memory())
      return unmap_memory(gone.address, gone.bytes);
    state().unreserve(gone.address, gone.bytes);
    return {};
  }

  status operator()(const call::texture_create& x) {
    if (auto ok = state().audit_texture(x.what); !ok)
      return ok;
    if (unit() == nullptr)
      return no_unit();
    auto value = unit()->create_texture(x.texture.id, x.what);
    if (!value)
      return value.why();
    state().add(x.texture.id, x.what);
    self.sink_->answer(who(), CUDA_SUCCESS, *value);
    return {};
  }

  status operator()(const call::texture_known& x) {
    if (auto ok = unit()->name_texture(x.texture.id, x.value); !ok)
      return ok;
    state().know(x.texture.id, x.value);
    return {};
  }

  status operator()(const call::texture_destroy& x) {
    state().remove(x.texture.id);
    return unit()->destroy_texture(x.texture.id);
  }

  // -- modules

  status operator()(const call::image_part& x) {
    constexpr std::uint64_t largest_image = std::uint64_t{4} << 30;
    auto size = what.payload.size();
    if (x.total > largest_image || x.offset > x.total ||
        size > x.total - x.offset)
      return fault{CUDA_ERROR_INVALID_IMAGE, "a part lies outside its image"};
    auto& image = self.images_[x.image];
    if (x.offset == 0)
      image.clear();
    if (x.offset != image.size())
      return fault{CUDA_ERROR_INVALID_IMAGE, "parts of an image are missing"};
    image.insert(image.end(), what.payload.begin(), what.payload.end());
    if (image.size() != x.total)
      return {};
    auto digest = XXH3_128bits(image.data(), image.size());
    if (call::digest{digest.low64, digest.high64} == x.image)
      return {};
    self.images_.erase(x.image);
    return fault{CUDA_ERROR_INVALID_IMAGE,
                 "an image's bytes do not match its digest"};
  }

  status operator()(const call::module_load& x) {
    auto image = self.images_.find(x.image);
    if (image == self.images_.end())
      return fault{CUDA_ERROR_INVALID_IMAGE,
                   "a module's image was not sent before it"};
    auto loaded = dev().load_module(x.module.id, image->second);
    if (!loaded)
      return loaded.why();
    state().add(x.module.id, {.kernels = loaded->kernels.size(),
                              .facts = encode_facts(*loaded),
                              .globals = loaded->globals});
    return answer_facts(x.module.id, x.facts);
  }

  status operator()(const call::module_facts& x) {
    return answer_facts(x.module.id, x.facts);
  }

  status answer_facts(module_id id, call::arena_range where) {
    if (!self.sink_->wanted(who()))
      return {};
    auto& facts = state().module(id).facts;
    auto bytes = std::as_bytes(std::span{facts});
    if (bytes.size() > where.bytes) {
      self.sink_->answer(who(), CUDA_SUCCESS, bytes.size());
      return {};
    }
    auto place = self.sink_->land(where, bytes.size());
    if (!place)
      return place.why();
    std::copy(bytes.begin(), bytes.end(), place->bytes.begin());
    self.sink_->deliver(who(), CUDA_SUCCESS, bytes.size(), *place,
                        where.offset);
    return {};
  }

  status operator()(const call::module_unload& x) {
    state().remove(x.module.id);
    return dev().unload_module(x.module.id);
  }

  status operator()(const call::kernel_attribute& x) {
    if (x.kernel >= state().module(x.module.id).kernels)
      return no_such_kernel(x.kernel);
    return dev().set_kernel_attribute(x.module.id, x.kernel,
                                      static_cast<int>(x.attribute),
                                      static_cast<int>(x.value));
  }

  static status no_such_kernel(std::uint32_t index) {
    return fault{CUDA_ERROR_INVALID_HANDLE,
                 "the module has no kernel " + std::to_string(index)};
  }

  // -- work

  status operator()(const call::launch& x) {
    if (x.kernel >= state().module(x.module.id).kernels)
      return no_such_kernel(x.kernel);
    auto dim = [](const call::dim3& d) { return device::dim3{d.x, d.y, d.z}; };
    return dev().enqueue_launch(
        x.stream.id, {.module = x.module.id,
                      .kernel = x.kernel,
                      .grid = dim(x.grid),
                      .block = dim(x.block),
                      .cluster = dim(x.cluster),
                      .dynamic_shared = x.dynamic_shared,
                      .cooperative = (x.flags & call::launch::cooperative) != 0,
                      .parameters = x.bytes});
  }

  status operator()(const call::write& x) {
    if (auto ok = audit_box(x.to, x.size); !ok)
      return ok;
    if (what.payload.size() != x.size.width * rows(x.size))
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "a copy's bytes do not match its size"};
    settle(x.stream.id);
    auto pinned = payload_pins::pin(self.pins_, what.call.value, owner);
    return each_row(x.to, x.size,
                    [&](device_address at, std::uint64_t offset,
                        std::uint64_t bytes, bool) {
                      return dev().enqueue_write(
                          x.stream.id, at, what.payload.subspan(offset, bytes),
                          pinned);
                    });
  }

  status operator()(const call::read& x) {
    if (auto ok = audit_box(x.from, x.size); !ok)
      return ok;
    if (!self.sink_->wanted(who()))
      return {};
    auto bytes = x.size.width * rows(x.size);
    auto place = self.sink_->land(x.to, bytes);
    if (!place)
      return place.why();
    if (bytes == 0) {
      dev().when_done(x.stream.id, completion());
      return {};
    }
    auto arrived = [sink = self.sink_, health = self.health_, who = who(),
                    place = *place, bytes,
                    offset = x.to.offset](CUresult result) {
      if (health->note(*sink, result))
        sink->deliver(who, result, bytes, place, offset);
    };
    return each_row(x.from, x.size,
                    [&](device_address at, std::uint64_t offset,
                        std::uint64_t width, bool last) {
                      return dev().enqueue_read(
                          x.stream.id, place->bytes.subspan(offset, width), at,
                          last ? device::completion{arrived}
                               : device::completion{[](CUresult) {}});
                    });
  }

  status operator()(const call::read_host& x) {
    if (auto ok = audit_box(x.from, x.size); !ok)
      return ok;
    auto span = span_of(x.to, x.size);
    if (!span || !in_host(x.to.address, *span))
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "a copy to pinned memory leaves the host window"};
    if (!self.sink_->wanted(who()))
      return {};
    if (x.size.width == 0 || rows(x.size) == 0) {
      dev().when_done(x.stream.id, completion());
      return {};
    }
    // Row by row of the source; its rows are the destination's.
    std::uint64_t row = 0;
    auto flat_to = x.size.height == 1 || x.to.pitch == x.size.width;
    auto flat_from = x.size.height == 1 || x.from.pitch == x.size.width;
    if (x.size.depth == 1 && flat_to && flat_from)
      return read_host_row(x.stream.id, x.to.address, x.from.address, *span,
                           true);
    for (std::uint64_t z = 0; z < x.size.depth; ++z)
      for (std::uint64_t y = 0; y < x.size.height; ++y)
        if (auto ok = read_host_row(
                x.stream.id, x.to.address + z * x.to.slice + y * x.to.pitch,
                x.from.address + z * x.from.slice + y * x.from.pitch,
                x.size.width, ++row == rows(x.size));
            !ok)
          return ok;
    return {};
  }

  status read_host_row(stream_id stream, device_address to, device_address from,
                       std::uint64_t bytes, bool last) {
    auto place = self.sink_->land_host(to, bytes);
    return dev().enqueue_read(
        stream, place.bytes, from,
        [sink = self.sink_, health = self.health_,
         who = waiter{last ? what.slot : slot_index{0}, what.call}, place,
         to](CUresult result) {
          if (health->note(*sink, result))
            sink->deliver_host(who, result, to, place);
        });
  }

  status operator()(const call::copy& x) {
    if (auto ok = audit_box(x.to, x.size); !ok)
      return ok;
    if (auto ok = audit_box(x.from, x.size); !ok)
      return ok;
    settle(x.stream.id);
    return dev().enqueue_copy(x.stream.id, pitched(x.to), pitched(x.from),
                              extent(x.size));
  }

  status operator()(const call::fill& x) {
    if (x.element_bytes != 1 && x.element_bytes != 2 && x.element_bytes != 4)
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "memset takes elements of 1, 2 or 4 bytes"};
    auto bytes = x.size;
    if (__builtin_mul_overflow(bytes.width, x.element_bytes, &bytes.width))
      return fault{CUDA_ERROR_INVALID_VALUE, "memset of an impossible size"};
    if (auto ok = audit_box(x.to, bytes); !ok)
      return ok;
    settle(x.stream.id);
    return dev().enqueue_fill(x.stream.id, pitched(x.to), x.value,
                              x.element_bytes, extent(x.size));
  }

  // -- streams and events

  status operator()(const call::stream_create& x) {
    state().add(x.stream.id);
    return dev().create_stream(x.stream.id, x.non_blocking != 0, x.priority);
  }
  status operator()(const call::stream_destroy& x) {
    state().remove(x.stream.id);
    order().forget(x.stream.id);
    return dev().destroy_stream(x.stream.id);
  }
  status operator()(const call::event_create& x) {
    state().add(x.event.id);
    return dev().create_event(x.event.id, x.timing != 0);
  }
  status operator()(const call::event_destroy& x) {
    state().remove(x.event.id);
    return dev().destroy_event(x.event.id);
  }
  status operator()(const call::event_record& x) {
    return dev().record_event(x.event.id, x.stream.id);
  }
  status operator()(const call::stream_wait& x) {
    return dev().wait_event(x.stream.id, x.event.id);
  }
  status operator()(const call::stream_sync& x) {
    dev().when_done(x.stream.id, completion());
    return {};
  }
  status operator()(const call::device_sync&) {
    dev().when_done(std::nullopt, completion());
    return {};
  }
  status operator()(const call::event_sync& x) {
    dev().when_recorded(x.event.id, completion());
    return {};
  }
  status operator()(const call::elapsed& x) {
    for (auto event : {x.from.id, x.to.id}) {
      auto done = dev().query_event(event);
      if (!done)
        return done.why();
      if (!*done)
        return fault{CUDA_ERROR_NOT_READY, "an event is not reached yet"};
    }
    auto time = dev().elapsed(x.from.id, x.to.id);
    if (!time)
      return time.why();
    self.sink_->answer(who(), CUDA_SUCCESS,
                       std::bit_cast<std::uint32_t>(*time));
    return {};
  }

  // -- host functions

  status operator()(const call::host_call& x) {
    return dev().enqueue_host(x.stream.id,
                              [calls = self.host_calls_, sink = self.sink_,
                               who = who()](std::function<void()> go_on) {
                                calls->begin(who.call, std::move(go_on));
                                sink->call_host(who);
                              });
  }
  status operator()(const call::host_done& x) {
    self.host_calls_->finish(x.call);
    return {};
  }
};

// -- executor
// -----------------------------------------------------------------------

executor::executor(std::vector<std::unique_ptr<device::device>> devices,
                   std::uint64_t quota)
    : devices_(std::move(devices)), host_calls_(std::make_shared<host_calls>()),
      consoles_(std::make_shared<consoles>()),
      health_(std::make_shared<health>()) {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    auto window = first_window + i * window_bytes;
    if (auto ok = devices_[i]->reserve_window(window); !ok)
      throw std::runtime_error{ok.why().what};
    states_.emplace_back(window, quota);
    orders_.emplace_back();
    texture_units_.push_back(
        dynamic_cast<device::texture_unit*>(devices_[i].get()));
    devices_[i]->set_printer(
        [to = consoles_](console where, std::string_view text) {
          to->print(where, text);
        });
  }
}

executor::~executor() {
  // Devices first: their threads complete into what the rest owns.
  devices_.clear();
}

status executor::host_shadow() {
  if (host_bytes_ != 0)
    return {};
  auto* at = ::mmap(
      reinterpret_cast<void*>(host_window), window_bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED)
    return fault{CUDA_ERROR_OPERATING_SYSTEM,
                 "the addresses of the host window are taken in this process"};
  host_shadow_ = mapping{at, window_bytes};
  host_bytes_ = window_bytes;
  return {};
}

void executor::answers_into(std::span<std::byte> arena) {
  for (auto& x : devices_)
    x->reads_into(arena);
}

void executor::serve(std::shared_ptr<answer_sink> sink) {
  std::lock_guard guard{consoles_->lock};
  consoles_->sink = sink;
  sink_ = std::move(sink);
}

void executor::execute(const record& what, std::shared_ptr<const void> owner) {
  status outcome;
  bool waits = false;
  std::string_view name;
  auto decoded = call::decode(
      what.message, [&]<class Call>(const Call& x, std::uint8_t ordinal) {
        waits = Call::kind == call::answer::sync;
        if (ordinal >= devices_.size()) {
          outcome = fault{CUDA_ERROR_INVALID_DEVICE, "no such device"};
          return;
        }
        call_dispatch on{*this, what, std::move(owner), ordinal};
        outcome = audit_handles(on.state(), x);
        if (outcome)
          outcome = on.join(x);
        if (outcome)
          outcome = on(x);
      });
  if (!decoded)
    outcome = decoded;
  position_ = what.end;
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (outcome)
    return;
  if (health::is_loss(outcome.code())) {
    (void)health_->note(*sink_, outcome.code());
    return;
  }
  if (waits || what.slot != 0) {
    spdlog::debug("call {} refused: {}", what.call.value, outcome.why().what);
    sink_->answer({what.slot, what.call}, outcome.code(), 0);
    return;
  }
  spdlog::warn("call {} failed: {}", what.call.value, outcome.why().what);
  (void)health_->note(*sink_, outcome.code());
}

std::uint64_t executor::executed() const {
  return pins_->advance(position_);
}

CUresult executor::error() const noexcept {
  return static_cast<CUresult>(health_->error.load());
}

CUresult executor::lost() const noexcept {
  return static_cast<CUresult>(health_->lost.load());
}

void executor::when_lost(std::function<void()> call) {
  health_->when_lost = std::move(call);
}

void executor::inject(std::size_t device, device::injected_fault what) {
  if (device < devices_.size())
    devices_[device]->inject(what);
}

} // namespace vgpu
