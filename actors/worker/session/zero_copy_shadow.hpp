// A worker's copy of host memory that kernels use in place, where its program
// is elsewhere.
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

/// Natively both sides have one memory. Here what the program wrote comes with
/// the calls (call::zero_copy_write), and what kernels wrote goes back before
/// whatever tells the program that something is done: so it finds what CUDA
/// lets it count on. Bytes that one side writes are the other's to read; of
/// what both write at the same time either may be kept.
///
/// The memory lies at its own addresses, in this process. Thread-safe.
class zero_copy_shadow {
public:
  /// Of how many ranges, and bytes in all, it keeps account.
  static constexpr std::size_t most_ranges = 4096;
  static constexpr std::uint64_t most_bytes = std::uint64_t{64} << 30;

  /// From now on it is told what kernels write here. `address` is a multiple of
  /// a line's bytes. `replayed`: the program has heard of some of it from an
  /// earlier worker, and is told all of it at first.
  status watch(device_address address, std::uint64_t bytes, bool replayed);
  void forget(device_address address);
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  /// What the program wrote. A fault where something of it is not watched.
  status write(std::span<const changed_line> lines);

  /// All of it came out of a state: likewise.
  void restored();

  /// What kernels wrote since it was last asked.
  std::vector<changed_line> changes();

private:
  void drop(device_address address);

  struct range {
    std::vector<std::byte> before;
    bool untold = false; // all of it
  };
  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::map<device_address, range> ranges_;
  std::uint64_t bytes_ = 0; // of all of them
};

} // namespace vgpu
