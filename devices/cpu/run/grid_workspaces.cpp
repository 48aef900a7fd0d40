#include "devices/cpu/run/grid_workspaces.hpp"

#include "schema/base/own_addresses.hpp"

#include <cstring>
#include <utility>

#include <sys/mman.h>

namespace vgpu::device::cpu {

/// Requires the lock.
bool grid_workspaces::grow() {
  constexpr std::size_t size = std::size_t{64} << 10;
  auto* at = ::mmap(own_address(size), size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return false;
  mapping whole{at, size};
  for (std::size_t i = 0; i < size; i += bytes)
    free_.push_back(whole.data() + i);
  mapped_.push_back(std::move(whole));
  return true;
}

/// Returns a workspace that nobody has, or null.
std::byte* grid_workspaces::find() {
  std::lock_guard guard{mutex_};
  if (free_.empty() && !grow())
    return nullptr;
  auto* place = free_.back();
  free_.pop_back();
  return place;
}

std::shared_ptr<void> grid_workspaces::take() {
  auto* place = find();
  if (place == nullptr)
    return nullptr;
  std::memset(place, 0, bytes);
  // Not under the lock: where this throws, it gives the place back.
  return {place, [self = shared_from_this(), place](void*) {
            self->give_back(place);
          }};
}

void grid_workspaces::give_back(std::byte* place) {
  std::lock_guard guard{mutex_};
  free_.push_back(place);
}

} // namespace vgpu::device::cpu
