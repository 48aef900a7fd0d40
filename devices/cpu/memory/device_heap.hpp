// The heap of a device: malloc and free of kernels.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>

namespace vgpu::device::cpu {

/// Blocks one behind the other, each with a header in the device's memory: so
/// the heap moves and is restored with that memory. What kernels write over
/// headers makes allocations fail, never this process. Thread-safe.
class heap {
public:
  /// The driver's default (CU_LIMIT_MALLOC_HEAP_SIZE).
  static constexpr std::uint64_t default_bytes = 8 << 20;

  /// Takes over `bytes` of zeroed memory, or memory of an earlier heap.
  void place(device_address base, std::uint64_t bytes);
  bool placed() const noexcept { return base_ != 0; }

  /// An address that is a multiple of 16, or 0 when there is no room.
  device_address allocate(std::uint64_t bytes);
  /// Whether there was such a block.
  bool release(device_address address);

private:
  struct header {
    std::uint64_t bytes; // with the header
    std::uint64_t state;
  };
  header* at(std::uint64_t offset) const;
  bool valid(std::uint64_t offset) const;

  std::mutex mutex_;
  device_address base_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t next_ = 0; // where the search begins
};

} // namespace vgpu::device::cpu
