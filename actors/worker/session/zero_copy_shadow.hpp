// A worker's copy of host memory that kernels use in place, for a program
// elsewhere.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/changed_lines.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu {

/// Keeps this copy in step. On one host both sides share one memory. Here the
/// program's writes come with the calls (call::zero_copy_write). The kernels'
/// writes go back before any answer which shows that work is done, so the
/// program sees what CUDA promises. Bytes that one side writes are for the
/// other to read. If both write the same bytes at the same time, either value
/// may remain.
///
/// The memory has the same addresses in this process. Thread-safe.
class zero_copy_shadow {
public:
  /// Serves a session with this quota on all devices together.
  explicit zero_copy_shadow(std::uint64_t quota) : quota_(quota) {}

  /// Raises the quota.
  void allow(std::uint64_t quota);

  /// Watches what kernels write in this range from now on. `address` is a
  /// multiple of a line's bytes. `replayed` says that an earlier worker has
  /// reported some of it, so that the next changes() returns all of it. Fails
  /// with CUDA_ERROR_OUT_OF_MEMORY beyond worker_bounds.
  status watch(device_address address, std::uint64_t bytes, bool replayed);
  void forget(device_address address);
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  /// Applies the program's writes. Fails where some of it is not watched.
  status write(std::span<const changed_line> lines);

  /// Records that a state restored all of the memory, so that the next
  /// changes() returns all of it.
  void restored();

  /// Returns what kernels wrote since the last call.
  std::vector<changed_line> changes();

private:
  void drop(device_address address);

  struct range {
    std::vector<std::byte> before;
    bool untold = false; // report all of it next
  };
  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::uint64_t quota_;
  std::map<device_address, range> ranges_;
  std::uint64_t bytes_ = 0; // of all ranges
};

} // namespace vgpu
