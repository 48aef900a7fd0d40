#include "actors/worker/session/late_rooms.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <numeric>

namespace vgpu {

late_rooms::memory::~memory() {
  for (auto* at : slabs)
    ::munmap(at, largest);
}

late_rooms::late_rooms(std::size_t usual) : usual_(usual) {}

result<late_rooms::place> late_rooms::take(device::device& on, stream_id stream,
                                           std::size_t bytes) {
  std::erase_if(last_, [](auto& x) { return x.second.at.expired(); });
  auto found = last_.find(stream);
  auto has = found == last_.end() ? nullptr : found->second.at.lock();
  auto least = std::lower_bound(sizes.begin(), sizes.end() - 1, bytes);
  auto which = static_cast<std::size_t>(least - sizes.begin());
  // Some rooms are kept for streams that have none.
  auto kept = has ? largest / *least / 2 : 0;
  if (has_room(which, kept))
    return hand_out(which, stream);
  want_more(which);
  if (has)
    return place{std::move(has), found->second.bytes, true};
  auto other = any_size(which);
  if (!other) {
    other = 0;
    if (auto ok = grow(on, *other); !ok)
      return ok.why();
  }
  return hand_out(*other, stream);
}

/// Notes that there were too few rooms of this size, unless the memory of all
/// rooms is what may be used.
void late_rooms::want_more(std::size_t which) {
  auto slabs = std::accumulate(slabs_.begin(), slabs_.end(), std::size_t{0});
  auto most = usual_ / largest;
  if (slabs >= most)
    return;
  wanted_[which] = std::max(
      wanted_[which], slabs_[which] + std::min(slabs_[which], most - slabs));
  lacks_ = true;
}

/// Returns whether a room of this size may be taken while `kept` of them are
/// left.
bool late_rooms::has_room(std::size_t which, std::size_t kept) const {
  std::lock_guard guard{all_->lock};
  return all_->free[which].size() > kept && all_->used + sizes[which] <= usual_;
}

/// Returns a size of which there is a free room: the wanted one, else the
/// nearest larger one, else the nearest smaller one.
std::optional<std::size_t> late_rooms::any_size(std::size_t wanted) const {
  std::lock_guard guard{all_->lock};
  for (auto i = wanted; i != sizes.size(); ++i)
    if (!all_->free[i].empty())
      return i;
  for (auto i = wanted; i-- != 0;)
    if (!all_->free[i].empty())
      return i;
  return std::nullopt;
}

status late_rooms::prepare(device::device& on) {
  lacks_ = false;
  for (std::size_t which = 0; which != sizes.size(); ++which)
    while (slabs_[which] < wanted_[which])
      if (auto ok = grow(on, which); !ok)
        return ok;
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
  ++slabs_[which];
  std::lock_guard guard{all_->lock};
  all_->slabs.push_back(at);
  for (std::size_t offset = 0; offset < largest; offset += sizes[which])
    all_->free[which].push_back(at + offset);
  return {};
}

/// Precondition: such a room is free.
late_rooms::place late_rooms::hand_out(std::size_t which, stream_id stream) {
  std::unique_lock guard{all_->lock};
  auto* at = all_->free[which].back();
  all_->free[which].pop_back();
  all_->used += sizes[which];
  guard.unlock();
  room made{at, [from = all_, which](std::byte* x) {
              std::lock_guard back{from->lock};
              from->free[which].push_back(x);
              from->used -= sizes[which];
            }};
  last_[stream] = {made, sizes[which]};
  return {std::move(made), sizes[which], false};
}

} // namespace vgpu
