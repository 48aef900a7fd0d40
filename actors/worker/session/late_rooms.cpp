#include "actors/worker/session/late_rooms.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace vgpu {

late_rooms::memory::~memory() {
  for (auto* at : slabs)
    ::munmap(at, largest);
}

late_rooms::late_rooms(std::size_t usual) : usual_(usual) {}

result<late_rooms::place> late_rooms::take(device::device& on, stream_id stream,
                                           std::size_t bytes) {
  auto least = std::lower_bound(sizes.begin(), sizes.end() - 1, bytes);
  auto which = static_cast<std::size_t>(least - sizes.begin());
  std::erase_if(last_, [](auto& x) { return x.second.at.expired(); });
  std::unique_lock guard{all_->lock};
  auto is_full = all_->used + *least > usual_;
  guard.unlock();
  auto& last = last_[stream];
  if (is_full && last.bytes >= bytes)
    if (auto at = last.at.lock(); at)
      return place{std::move(at), true};
  guard.lock();
  if (all_->free[which].empty()) {
    guard.unlock();
    if (auto ok = grow(on, which); !ok)
      return ok.why();
    guard.lock();
  }
  auto at = hand_out(which);
  last = {at, *least};
  return place{std::move(at), false};
}

status late_rooms::prepare(device::device& on) {
  for (auto which : {std::size_t{0}, sizes.size() - 1}) {
    std::unique_lock guard{all_->lock};
    auto has_some = !all_->free[which].empty();
    guard.unlock();
    if (auto ok = has_some ? status{} : grow(on, which); !ok)
      return ok;
  }
  return {};
}

/// Adds a slab at once, because letting a device use memory costs much. A
/// completion that lets a room go must not wait for that, so nothing is locked
/// meanwhile.
status late_rooms::grow(device::device& on, std::size_t which) {
  auto* got = ::mmap(own_address(largest), largest, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      "no host memory for bytes that a program sends late");
  auto* at = static_cast<std::byte*>(got);
  if (auto ok = on.attach_host(reinterpret_cast<device_address>(at), largest);
      !ok) {
    ::munmap(at, largest);
    return ok;
  }
  std::lock_guard guard{all_->lock};
  all_->slabs.push_back(at);
  for (std::size_t offset = 0; offset < largest; offset += sizes[which])
    all_->free[which].push_back(at + offset);
  return {};
}

/// Precondition: the lock is held, and such a room is free.
late_rooms::room late_rooms::hand_out(std::size_t which) {
  auto* at = all_->free[which].back();
  all_->free[which].pop_back();
  all_->used += sizes[which];
  return room{at, [from = all_, which](std::byte* x) {
                std::lock_guard back{from->lock};
                from->free[which].push_back(x);
                from->used -= sizes[which];
              }};
}

} // namespace vgpu
