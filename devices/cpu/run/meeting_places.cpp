#include "devices/cpu/run/meeting_places.hpp"

#include "schema/base/own_addresses.hpp"

#include <cstring>

#include <sys/mman.h>

namespace vgpu::device::cpu {

namespace {

constexpr std::size_t mapped_bytes = std::size_t{64} << 10;

} // namespace

void meeting_places::unmap::operator()(std::byte* at) const noexcept {
  ::munmap(at, mapped_bytes);
}

/// Requires the lock.
bool meeting_places::grow() {
  auto* at = ::mmap(own_address(mapped_bytes), mapped_bytes,
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return false;
  auto* first = static_cast<std::byte*>(at);
  mapped_.emplace_back(first);
  for (std::size_t i = 0; i < mapped_bytes; i += bytes)
    free_.push_back(first + i);
  return true;
}

std::shared_ptr<void> meeting_places::take() {
  std::lock_guard guard{mutex_};
  if (free_.empty() && !grow())
    return nullptr;
  auto* place = free_.back();
  free_.pop_back();
  std::memset(place, 0, bytes);
  return {place, [self = shared_from_this(), place](void*) {
            self->give_back(place);
          }};
}

void meeting_places::give_back(std::byte* place) {
  std::lock_guard guard{mutex_};
  free_.push_back(place);
}

} // namespace vgpu::device::cpu
