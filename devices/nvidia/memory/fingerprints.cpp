#include "devices/nvidia/memory/fingerprints.hpp"

#include "devices/nvidia/driver/own_kernel.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace vgpu::device::nvidia {

namespace {

constexpr auto list_bytes = std::uint64_t{4096} * sizeof(device_address);

fault cannot_look() {
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                    "this device cannot report changes of its memory");
}

/// Splits a range into parts of at most `most`.
std::vector<std::span<peeked>> in_batches(std::span<peeked> all,
                                          std::size_t most) {
  std::vector<std::span<peeked>> out;
  for (; !all.empty(); all = all.subspan(out.back().size()))
    out.push_back(all.first(std::min(most, all.size())));
  return out;
}

} // namespace

status fingerprints::open() {
  std::lock_guard guard{mutex_};
  auto kernels =
      load_own_kernels(api_, memory_kernels_ptx, {"fingerprint", "gather"});
  if (!kernels)
    return kernels.why();
  auto ok = api_->check(
      api_->cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
      "cuStreamCreateWithPriority");
  if (ok)
    ok = api_->check(api_->cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING),
                     "cuEventCreate");
  if (ok)
    ok = take_memory();
  if (ok)
    ok = spare_.reserve();
  if (ok) {
    kernel_ = kernels->at(0);
    gather_ = kernels->at(1);
  }
  return ok;
}

/// Maps granules for copies, and one for the lists.
status fingerprints::take_memory() {
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
  CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr at = 0;
  constexpr auto bytes = (copied_at_once + 1) * granule_bytes;
  auto ok =
      api_->check(api_->cuMemCreate(&memory, bytes, &what, 0), "cuMemCreate");
  if (ok)
    ok = api_->check(api_->cuMemAddressReserve(&at, bytes, granule_bytes, 0, 0),
                     "cuMemAddressReserve");
  if (ok)
    ok = api_->check(api_->cuMemMap(at, bytes, 0, memory, 0), "cuMemMap");
  if (ok)
    ok = api_->check(api_->cuMemSetAccess(at, bytes, &access, 1),
                     "cuMemSetAccess");
  copy_ = at;
  list_ = at + copied_at_once * granule_bytes;
  out_ = list_ + list_bytes;
  return ok;
}

status fingerprints::wait() {
  if (auto ok =
          api_->check(api_->cuEventRecord(done_, stream_), "cuEventRecord");
      !ok)
    return ok;
  return api_->check(api_->cuEventSynchronize(done_), "fingerprints of memory");
}

/// Takes the fingerprints of these granules. The caller holds mutex_ and keeps
/// the granules mapped.
status fingerprints::run(std::span<const device_address> granules,
                         std::span<fingerprint> out) {
  static_assert(list_bytes + at_once * sizeof(fingerprint) <= granule_bytes);
  static_assert(at_once * sizeof(device_address) == list_bytes);
  auto room = staging_.take(out.size_bytes(), true);
  if (!room)
    return room.why();
  std::memcpy(room->get(), granules.data(), granules.size_bytes());
  void* parameters[] = {&list_, &out_};
  auto ok = api_->check(api_->cuMemcpyHtoDAsync(list_, room->get(),
                                                granules.size_bytes(), stream_),
                        "cuMemcpyHtoDAsync");
  if (ok)
    ok = api_->check(
        api_->cuMemsetD32Async(out_, 0, out.size_bytes() / 4, stream_),
        "cuMemsetD32Async");
  if (ok)
    ok =
        api_->check(api_->cuLaunchKernel(kernel_, parts_of_granule,
                                         static_cast<unsigned>(granules.size()),
                                         1, fingerprint_threads, 1, 1, 0,
                                         stream_, parameters, nullptr),
                    "cuLaunchKernel");
  // The stream has read the list from this buffer before it writes here.
  if (ok)
    ok = api_->check(
        api_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(room->get()), out_,
                            out.size_bytes(), stream_),
        "cuMemcpyAsync");
  auto done = wait();
  if (ok && done)
    std::memcpy(out.data(), room->get(), out.size_bytes());
  return ok ? done : ok;
}

result<std::uint64_t> fingerprints::mark() {
  std::lock_guard guard{mutex_};
  if (kernel_ == nullptr)
    return cannot_look();
  std::vector<device_address> granules;
  std::vector<fingerprint> what;
  auto ok = window_.with_used([&](std::vector<device_address> used) {
    granules = std::move(used);
    what.resize(granules.size());
    for (std::size_t from = 0; from < granules.size(); from += at_once) {
      auto count = std::min(at_once, granules.size() - from);
      if (auto each = run(std::span{granules}.subspan(from, count),
                          std::span{what}.subspan(from, count));
          !each)
        return each;
    }
    return status{};
  });
  if (!ok)
    return ok.why();
  return seen_.look(granules, what);
}

// -- copies -------------------------------------------------------------------

void fingerprints::peek(std::span<peeked> pieces) {
  for (auto all : in_batches(pieces, copied_at_once))
    peek_some(all, [&](buffers to) { return copy(all, to); });
}

/// Calls `copy` with a place for each piece: its own memory where that is
/// pinned, or else a buffer, from which the bytes are copied on. Other threads
/// may use the device meanwhile.
void fingerprints::peek_some(std::span<peeked> pieces,
                             const std::function<status(buffers)>& copy) {
  std::vector<staging::buffer> rooms(pieces.size());
  std::vector<std::byte*> places;
  status ok;
  for (std::size_t i = 0; ok && i < pieces.size(); ++i) {
    auto& x = pieces[i];
    if (!x.pinned) {
      auto room = staging_.take(x.into.size(), true);
      if (room)
        rooms[i] = std::move(*room);
      else
        ok = room.why();
    }
    places.push_back(x.pinned ? x.into.data() : rooms[i].get());
  }
  if (ok)
    ok = copy(places);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto& x = pieces[i];
    if (!ok)
      x.outcome = ok;
    else if (x.outcome && !x.pinned)
      std::memcpy(x.into.data(), rooms[i].get(), x.into.size());
  }
}

namespace {

/// Is host memory that the driver has pinned.
class registered_memory final : public pinned_memory {
public:
  registered_memory(driver_ptr api, void* at, std::function<void()> enter)
      : api_(std::move(api)), at_(at), enter_(std::move(enter)) {}
  ~registered_memory() override {
    enter_();
    (void)api_->cuMemHostUnregister(at_);
  }

private:
  driver_ptr api_;
  void* at_;
  std::function<void()> enter_;
};

} // namespace

std::unique_ptr<pinned_memory>
fingerprints::pin(std::span<std::byte> memory,
                  std::function<void()> enter) const {
  // Other devices of the session use it as well.
  if (api_->cuMemHostRegister(memory.data(), memory.size(),
                              CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS)
    return nullptr;
  return std::make_unique<registered_memory>(api_, memory.data(),
                                             std::move(enter));
}

/// Copies whole granules on the device first, where copies take almost no time,
/// so that the fingerprints are those of the same bytes that the caller gets.
status fingerprints::copy(std::span<peeked> pieces, buffers to) {
  std::lock_guard guard{mutex_};
  if (kernel_ == nullptr)
    return cannot_look();
  std::vector<device_address> granules;
  auto ok = copy_on_device(pieces, granules);
  std::vector<device_address> all, copies;
  for (auto& x : pieces) {
    all.push_back(copy_ + copies.size() * granule_bytes);
    if (x.outcome)
      copies.push_back(all.back());
  }
  if (ok)
    ok = copy_out(pieces, all, to);
  if (!ok)
    (void)wait(); // for the copies that were begun
  if (!ok || copies.empty())
    return ok;
  std::vector<fingerprint> what(copies.size());
  ok = run(copies, what);
  for (std::size_t i = 0; ok && i < what.size(); ++i)
    seen_.copied(granules[i], what[i]);
  return ok;
}

/// Begins to copy the pieces whose outcome is good, from these granules. The
/// caller holds mutex_.
status fingerprints::copy_out(std::span<peeked> pieces,
                              std::span<const device_address> granules,
                              buffers to) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto& x = pieces[i];
    if (!x.outcome)
      continue;
    auto at = reinterpret_cast<CUdeviceptr>(to[i]);
    if (auto ok = api_->check(
            api_->cuMemcpyAsync(at, granules[i] + x.from % granule_bytes,
                                x.into.size(), stream_),
            "cuMemcpyAsync");
        !ok)
      return ok;
  }
  return {};
}

/// Copies the granules of those pieces that are mapped, one behind the other.
/// Says of the others that they are not.
status fingerprints::copy_on_device(std::span<peeked> pieces,
                                    std::vector<device_address>& granules) {
  return window_.while_kept([&](auto check) {
    status ok;
    for (auto& x : pieces) {
      auto granule = x.from / granule_bytes * granule_bytes;
      x.outcome = check(granule);
      if (!x.outcome)
        continue;
      auto to = copy_ + granules.size() * granule_bytes;
      granules.push_back(granule);
      ok = api_->check(api_->cuMemcpyAsync(to, granule, granule_bytes, stream_),
                       "cuMemcpyAsync");
      if (!ok)
        break;
    }
    auto done = wait();
    return ok ? done : ok;
  });
}

// -- at rest ------------------------------------------------------------------

void fingerprints::read_at_rest(std::span<peeked> pieces) {
  auto room = staging_.take(staging::large_bytes, true);
  while (!pieces.empty()) {
    std::size_t count = 0;
    for (std::size_t bytes = 0;
         count < std::min(pieces.size(), gathered_at_once); ++count) {
      bytes += round_up(pieces[count].into.size(), gathered_alignment);
      if (count != 0 && bytes > staging::large_bytes)
        break;
    }
    auto together = pieces.first(count);
    auto ok = room ? read_together(together, room->get()) : room.why();
    for (auto& x : together)
      x.outcome = ok;
    pieces = pieces.subspan(count);
  }
}

/// Reads pieces by way of large_bytes of pinned memory, with one launch and one
/// wait. A copy of each piece by itself would take some 10 us.
status fingerprints::read_together(std::span<peeked> pieces, std::byte* room) {
  std::lock_guard guard{mutex_};
  if (kernel_ == nullptr)
    return cannot_look();
  if (pieces.front().into.size() > staging::large_bytes)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a piece of memory is too large to be read at once");
  std::vector<gathered> list;
  std::size_t bytes = 0;
  for (auto& x : pieces) {
    list.push_back({x.from, static_cast<std::uint32_t>(x.into.size()),
                    static_cast<std::uint32_t>(bytes)});
    bytes += round_up(x.into.size(), gathered_alignment);
  }
  auto ok = gather(list, bytes, room);
  auto done = wait();
  if (!ok || !done)
    return ok ? done : ok;
  for (std::size_t i = 0; i < list.size(); ++i)
    std::memcpy(pieces[i].into.data(), room + list[i].place, list[i].bytes);
  return {};
}

/// Begins to copy the pieces of a list to `room`, which has `bytes` bytes for
/// them. The caller holds mutex_.
status fingerprints::gather(std::span<const gathered> list, std::size_t bytes,
                            std::byte* room) {
  static_assert(gathered_at_once * sizeof(gathered) <= granule_bytes);
  static_assert(gathered_at_once * sizeof(gathered) <= staging::large_bytes);
  static_assert(staging::large_bytes <= copied_at_once * granule_bytes);
  std::memcpy(room, list.data(), list.size_bytes());
  void* parameters[] = {&list_, &copy_};
  auto ok = api_->check(
      api_->cuMemcpyHtoDAsync(list_, room, list.size_bytes(), stream_),
      "cuMemcpyHtoDAsync");
  if (ok)
    ok = api_->check(api_->cuLaunchKernel(
                         gather_, static_cast<unsigned>(list.size()), 1, 1,
                         gather_threads, 1, 1, 0, stream_, parameters, nullptr),
                     "cuLaunchKernel");
  // The stream has read the list from this buffer before it writes here.
  if (ok)
    ok = api_->check(api_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(room),
                                         copy_, bytes, stream_),
                     "cuMemcpyAsync");
  return ok;
}

// -- kept copies --------------------------------------------------------------

/// Is the room for kept copies, of which there is one.
class fingerprints::kept_room final : public contents_room {
public:
  kept_room(fingerprints& of, std::function<void()> enter)
      : of_(of), enter_(std::move(enter)) {}
  ~kept_room() override {
    enter_();
    std::lock_guard guard{of_.mutex_};
    of_.spare_.give_back();
  }

  status keep(std::span<const device_address> granules) override {
    enter_();
    if (auto ok = of_.keep(granules); !ok)
      return ok;
    for (auto x : granules)
      places_.emplace(x, of_.spare_.base() + places_.size() * granule_bytes);
    return {};
  }

  void peek(std::span<peeked> pieces) override {
    enter_();
    for (auto all : in_batches(pieces, copied_at_once))
      of_.peek_some(all, [&](buffers to) { return copy(all, to); });
  }

private:
  status copy(std::span<peeked> pieces, buffers to) {
    std::vector<device_address> from;
    for (auto& x : pieces) {
      auto at = places_.find(x.from / granule_bytes * granule_bytes);
      from.push_back(at == places_.end() ? 0 : at->second);
      x.outcome = from.back() != 0
                      ? status{}
                      : cuda_fault(CUDA_ERROR_INVALID_VALUE,
                                   "no copy of this memory was kept");
    }
    std::lock_guard guard{of_.mutex_};
    auto ok = of_.copy_out(pieces, from, to);
    auto done = of_.wait();
    return ok ? done : ok;
  }

  fingerprints& of_;
  std::function<void()> enter_;
  std::map<device_address, device_address> places_;
};

result<std::unique_ptr<contents_room>>
fingerprints::make_room(std::uint64_t granules, std::function<void()> enter) {
  std::lock_guard guard{mutex_};
  if (kernel_ == nullptr)
    return cannot_look();
  if (spare_.taken())
    return cuda_fault(CUDA_ERROR_ILLEGAL_STATE,
                      "this device's room for copies is in use");
  if (auto ok = spare_.take(granules * granule_bytes); !ok)
    return ok.why();
  return std::unique_ptr<contents_room>{
      std::make_unique<kept_room>(*this, std::move(enter))};
}

status fingerprints::keep(std::span<const device_address> granules) {
  std::lock_guard guard{mutex_};
  return window_.while_kept([&](auto check) {
    status ok;
    for (std::size_t i = 0; ok && i < granules.size(); ++i) {
      ok = check(granules[i]);
      if (ok)
        ok = api_->check(api_->cuMemcpyAsync(spare_.base() + i * granule_bytes,
                                             granules[i], granule_bytes,
                                             stream_),
                         "cuMemcpyAsync");
    }
    auto done = wait();
    return ok ? done : ok;
  });
}

} // namespace vgpu::device::nvidia
