#include "devices/cpu/memory/memory_map.hpp"

#include "schema/base/cuda_fault.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <shared_mutex>
#include <string>

namespace vgpu::device::cpu {

namespace {

void* at(device_address x) {
  return reinterpret_cast<void*>(x);
}

/// The windows of this process, which belong to the devices of one session;
/// these reach each other's memory. The list lives as long as the process.
struct window_list {
  std::shared_mutex mutex;
  std::vector<const memory_map*> all;
};
window_list& windows() {
  static auto& list = *new window_list;
  return list;
}

/// Tells whether the memory is another device's. All devices can use host
/// memory that is attached to one of them.
bool is_of_peer(const memory_map* self, device_address address,
                std::uint64_t bytes) noexcept {
  auto& [mutex, all] = windows();
  auto lock = std::shared_lock{mutex};
  if (std::any_of(all.begin(), all.end(), [&](auto* x) {
        return x != self && x->is_attached(address, bytes);
      }))
    return true;
  auto owner = std::find_if(all.begin(), all.end(), [&](auto* x) {
    auto offset = address - x->base();
    return x != self && offset < window_bytes && bytes <= window_bytes - offset;
  });
  return owner != all.end() && (*owner)->usable(address, bytes);
}

void set(std::atomic<std::uint8_t>* backed, std::uint64_t offset,
         std::uint64_t bytes, std::uint8_t to) {
  auto first = offset >> memory_map::granule_shift;
  auto last = (offset + bytes) >> memory_map::granule_shift;
  for (auto i = first; i < last; ++i)
    backed[i].store(to, std::memory_order_relaxed);
}

} // namespace

memory_map::~memory_map() {
  {
    auto lock = std::lock_guard{windows().mutex};
    std::erase(windows().all, this);
  }
  if (backed_)
    munmap(at(base_), window_bytes);
}

status memory_map::reserve(device_address base) {
  if (backed_)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "window: it is reserved already");
  if (base == 0 || base % granule_bytes != 0)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "window: its base must be a multiple of 2 MiB");
  auto got = mmap(
      at(base), window_bytes, PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != at(base)) {
    auto why = std::string{got == MAP_FAILED
                               ? std::strerror(errno)
                               : "the kernel ignores the requested address"};
    if (got != MAP_FAILED)
      munmap(got, window_bytes);
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      "window: its addresses are not free in this process (" +
                          why + "); each session needs a window of its own");
  }
  backed_ = std::make_unique<std::atomic<std::uint8_t>[]>(granules);
  base_ = base;
  size_ = window_bytes;
  auto lock = std::lock_guard{windows().mutex};
  windows().all.push_back(this);
  return {};
}

bool memory_map::in_window(device_address address,
                           std::uint64_t bytes) const noexcept {
  auto offset = address - base_;
  return backed_ && bytes != 0 && offset < window_bytes &&
         bytes <= window_bytes - offset && offset % granule_bytes == 0 &&
         bytes % granule_bytes == 0;
}

status memory_map::back(device_address address, std::uint64_t bytes) {
  auto got =
      mmap(at(address), bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (got == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"window: cannot allocate host memory: "} +
                          std::strerror(errno));
  set(backed_.get(), address - base_, bytes, 1);
  return {};
}

void memory_map::release(device_address address, std::uint64_t bytes) {
  set(backed_.get(), address - base_, bytes, 0);
  mmap(at(address), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

status memory_map::show(device_address address, std::uint64_t bytes,
                        void* from) {
  // For shared memory an old size of 0 keeps the old mapping too.
  auto got = mremap(from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at(address));
  if (got == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"window: cannot map memory: "} +
                          std::strerror(errno));
  return open(address, bytes, false);
}

status memory_map::open(device_address address, std::uint64_t bytes,
                        bool usable) {
  if (!usable)
    set(backed_.get(), address - base_, bytes, 0);
  if (mprotect(at(address), bytes, usable ? PROT_READ | PROT_WRITE : PROT_NONE))
    return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                      std::string{"window: cannot change the access rights: "} +
                          std::strerror(errno));
  if (usable)
    set(backed_.get(), address - base_, bytes, 1);
  return {};
}

status memory_map::replace(device_address address, std::uint64_t bytes,
                           int file) {
  auto got = mmap(at(address), bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  if (got == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"window: cannot map shared memory: "} +
                          std::strerror(errno));
  return {};
}

void memory_map::attach(device_address address, std::uint64_t bytes) {
  auto lock = std::lock_guard{mutex_};
  attached_.push_back({address, address + bytes});
}

bool memory_map::detach(device_address address, std::uint64_t bytes) {
  auto lock = std::lock_guard{mutex_};
  auto same = [&](const range& x) {
    return x.begin == address && x.end == address + bytes;
  };
  auto found = std::find_if(attached_.begin(), attached_.end(), same);
  if (found == attached_.end())
    return false;
  attached_.erase(found);
  return true;
}

bool memory_map::usable_elsewhere(device_address address,
                                  std::uint64_t bytes) const noexcept {
  return is_attached(address, bytes) || is_of_peer(this, address, bytes);
}

bool memory_map::is_attached(device_address address,
                             std::uint64_t bytes) const noexcept {
  auto lock = std::lock_guard{mutex_};
  // An access may cross from one range into the next.
  while (true) {
    auto holds = [&](const range& x) {
      return address >= x.begin && address < x.end;
    };
    auto found = std::find_if(attached_.begin(), attached_.end(), holds);
    if (found == attached_.end())
      return false;
    auto here = found->end - address;
    if (bytes <= here)
      return true;
    address += here;
    bytes -= here;
  }
}

} // namespace vgpu::device::cpu
