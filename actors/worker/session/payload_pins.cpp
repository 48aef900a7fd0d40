#include "actors/worker/session/payload_pins.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

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
  // It is not null, because null means that nothing is held.
  return {static_cast<const void*>(self.get()), std::move(release)};
}

std::uint64_t payload_pins::advance(std::uint64_t position) {
  std::lock_guard guard{lock_};
  position_ = std::max(position_, position);
  return held_.empty() ? position_ : std::min(position_, *held_.begin());
}

} // namespace vgpu
