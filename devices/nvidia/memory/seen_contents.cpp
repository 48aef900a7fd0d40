#include "devices/nvidia/memory/seen_contents.hpp"

#include <utility>

namespace vgpu::device::nvidia {

std::uint64_t seen_contents::look(std::span<const device_address> granules,
                                  std::span<const fingerprint> what) {
  std::lock_guard guard{mutex_};
  std::map<device_address, seen> now;
  for (std::size_t i = 0; i < granules.size(); ++i) {
    auto before = granules_.find(granules[i]);
    auto same = before != granules_.end() && before->second.what == what[i];
    now.emplace(granules[i],
                seen{what[i], same ? before->second.changed : looks_});
  }
  granules_ = std::move(now);
  return ++looks_;
}

void seen_contents::copied(device_address granule, const fingerprint& what) {
  std::lock_guard guard{mutex_};
  auto i = granules_.find(granule);
  if (i != granules_.end() && i->second.what != what)
    i->second.changed = looks_;
}

bool seen_contents::changed_since(device_address granule,
                                  std::uint64_t look) const {
  std::lock_guard guard{mutex_};
  auto i = granules_.find(granule);
  return i == granules_.end() || i->second.changed >= look;
}

} // namespace vgpu::device::nvidia
