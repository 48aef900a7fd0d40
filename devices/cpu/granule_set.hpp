// Granules of memory that is on its way out.
#pragma once

#include "schema/ids.hpp"

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace vgpu::device::cpu {

/// Granules whose memory goes when the work before is done. Thread-safe: shared
/// with the threads that take it away. A granule counts as often as it is in.
class granule_set {
public:
  bool contains(device_address x) {
    auto lock = std::lock_guard{mutex_};
    return counts_.contains(x);
  }
  void insert(device_address x) {
    auto lock = std::lock_guard{mutex_};
    ++counts_[x];
  }
  void erase(device_address first, std::uint64_t bytes) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      if (auto at = counts_.find(g); at != counts_.end() && --at->second == 0)
        counts_.erase(at);
  }

private:
  std::mutex mutex_;
  std::unordered_map<device_address, unsigned> counts_;
};

} // namespace vgpu::device::cpu
