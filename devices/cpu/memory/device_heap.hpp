// The device heap, which kernels use through malloc and free.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>

namespace vgpu::device::cpu {

/// The addresses at the end of the window that a large heap has for itself, in
/// bytes.
inline constexpr std::uint64_t large_heap_bytes = std::uint64_t{64} << 30;

/// Manages consecutive blocks of memory, each with a header in device memory,
/// so that the heap is saved and restored with that memory. A kernel that
/// overwrites headers makes allocations fail but does not harm this process.
/// Thread-safe.
class heap {
public:
  /// The default size in bytes, as the driver has it
  /// (CU_LIMIT_MALLOC_HEAP_SIZE).
  static constexpr std::uint64_t default_bytes = 8 << 20;

  /// Takes over `bytes` of zeroed memory, or the memory of an earlier heap.
  void place(device_address base, std::uint64_t bytes);
  /// Gives up the memory.
  void leave();
  /// Tells whether no kernel has allocated since the heap was placed, and none
  /// in the memory of an earlier heap that was taken over.
  bool untouched();
  /// Tells whether the heap has memory.
  bool placed() const noexcept { return base_ != 0; }
  device_address base() const noexcept { return base_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Returns an address that is a multiple of 16, or 0 when there is no room.
  device_address allocate(std::uint64_t bytes);
  /// Frees a block. Returns false where there is no such block.
  bool release(device_address address);

private:
  struct header {
    std::uint64_t bytes; // header included
    std::uint64_t state;
  };
  header* at(std::uint64_t offset) const;
  bool valid(std::uint64_t offset) const;

  std::mutex mutex_;
  device_address base_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t next_ = 0; // where the next search begins
  bool allocated_ = false; // since it was placed
};

} // namespace vgpu::device::cpu
