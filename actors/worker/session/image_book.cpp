#include "actors/worker/session/image_book.hpp"

#include "actors/worker/session/worker_bounds.hpp"

namespace vgpu {

bool image_book::admit(const call::digest& image, std::uint64_t bytes) {
  if (auto known = images_.find(image); known != images_.end())
    return known->second.bytes == bytes;
  if (idle_ < worker_bounds::idle_images && restore(image, bytes)) {
    refused_.erase(image);
    return true;
  }
  // Only the error differs for those that are forgotten.
  if (refused_.size() == worker_bounds::refused_images)
    refused_.clear();
  refused_.insert(image);
  return false;
}

bool image_book::restore(const call::digest& image, std::uint64_t bytes) {
  auto most = worker_bounds::images(quota_);
  if (bytes > most || bytes_ > most - bytes)
    return false;
  if (!images_.emplace(image, entry{bytes, 0}).second)
    return false;
  bytes_ += bytes;
  idle_ += bytes;
  return true;
}

void image_book::forget(const call::digest& image) {
  auto gone = images_.extract(image);
  if (!gone)
    return;
  bytes_ -= gone.mapped().bytes;
  if (gone.mapped().modules == 0)
    idle_ -= gone.mapped().bytes;
}

void image_book::loaded(std::size_t device, module_id module,
                        const call::digest& image) {
  auto known = images_.find(image);
  if (known == images_.end())
    return;
  if (!loaded_.emplace(std::pair{device, module}, image).second)
    return;
  if (known->second.modules++ == 0)
    idle_ -= known->second.bytes;
}

void image_book::unloaded(std::size_t device, module_id module) {
  auto gone = loaded_.extract({device, module});
  if (!gone)
    return;
  auto known = images_.find(gone.mapped());
  if (known != images_.end() && --known->second.modules == 0)
    idle_ += known->second.bytes;
}

} // namespace vgpu
