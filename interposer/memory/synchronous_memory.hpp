// Memory whose copies and fills the program waits for
// (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
#pragma once

#include "schema/base/ids.hpp"

#include <atomic>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>

namespace vgpu::interposer {

/// Holds the allocations that have the attribute. Thread-safe.
class synchronous_memory {
public:
  /// Gives the allocation [at, at + bytes) the attribute, or takes it away.
  void set(device_address at, std::uint64_t bytes, bool on) {
    std::lock_guard guard{mutex_};
    if (on)
      ranges_[at] = bytes;
    else
      ranges_.erase(at);
    count_.store(ranges_.size(), std::memory_order_release);
  }

  /// Removes the attribute of an allocation that ends.
  void forget(device_address at) {
    if (count_.load(std::memory_order_acquire) != 0)
      set(at, 0, false);
  }

  /// Tells whether the address lies in such an allocation. Costs little where
  /// there are none.
  bool holds(device_address at) const {
    if (count_.load(std::memory_order_acquire) == 0)
      return false;
    std::lock_guard guard{mutex_};
    auto next = ranges_.upper_bound(at);
    if (next == ranges_.begin())
      return false;
    auto& [begin, bytes] = *std::prev(next);
    return at - begin < bytes;
  }

private:
  mutable std::mutex mutex_;
  std::map<device_address, std::uint64_t> ranges_;
  std::atomic<std::size_t> count_{0}; // of ranges_
};

/// Returns the process's memory of this kind. Precondition: the driver's state
/// is made.
synchronous_memory& synchronous() noexcept;

} // namespace vgpu::interposer
