#include "actors/state/copy_rooms.hpp"

#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace vgpu {

copy_room::copy_room(std::size_t bytes, device::change_unit& by) {
  auto* at = ::mmap(own_address(bytes), bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    throw std::bad_alloc{};
  memory_ = {static_cast<std::byte*>(at), bytes};
  pinned_ = by.pin(memory_);
}

copy_room::~copy_room() {
  pinned_.reset();
  ::munmap(memory_.data(), memory_.size());
}

std::unique_ptr<copy_room> copy_rooms::take(device::change_unit& by) {
  {
    std::lock_guard guard{mutex_};
    if (!free_.empty()) {
      auto out = std::move(free_.back());
      free_.pop_back();
      return out;
    }
  }
  return std::make_unique<copy_room>(bytes, by);
}

void copy_rooms::give_back(std::unique_ptr<copy_room> x) {
  std::lock_guard guard{mutex_};
  free_.push_back(std::move(x));
}

} // namespace vgpu
