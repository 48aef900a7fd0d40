// The device addresses at which memory is mapped.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::device::cpu {

/// Maps one window of addresses, backed granule by granule, and knows the
/// attached ranges of host memory. It owns the window's mapping. Look-ups are
/// safe from any thread and take no lock in the window. One thread at a time
/// makes the other calls, while other threads look up addresses.
class memory_map {
public:
  static constexpr unsigned granule_shift = 21;
  static constexpr std::uint64_t granules = window_bytes >> granule_shift;

  memory_map() = default;
  memory_map(const memory_map&) = delete;
  memory_map& operator=(const memory_map&) = delete;
  ~memory_map();

  /// Reserves the window's addresses. Returns a fault where they are not free
  /// in this process.
  status reserve(device_address base);
  device_address base() const noexcept { return base_; }

  /// Tells whether [address, address + bytes) is whole granules of the window.
  bool in_window(device_address address, std::uint64_t bytes) const noexcept;

  /// Backs the range with zeroed memory, even where it had memory before.
  status back(device_address address, std::uint64_t bytes);
  /// Takes away the memory of the range.
  void release(device_address address, std::uint64_t bytes);

  /// Maps shared memory of the process into the window as well, without access.
  status show(device_address address, std::uint64_t bytes, void* from);
  /// Allows or forbids access to memory that show() mapped.
  status open(device_address address, std::uint64_t bytes, bool usable);

  /// Maps a file over the memory of the range. The caller has copied the
  /// contents into the file, and nothing uses the range.
  status replace(device_address address, std::uint64_t bytes, int file);

  /// Lets kernels use a range of host memory.
  void attach(device_address address, std::uint64_t bytes);
  /// Reverses attach(). Returns false where exactly this range is not attached.
  bool detach(device_address address, std::uint64_t bytes);

  /// Tells whether attached ranges cover all of this range.
  bool is_attached(device_address address, std::uint64_t bytes) const noexcept;

  /// Tells whether a kernel may access [address, address + bytes), for at least
  /// one byte.
  bool usable(device_address address, std::uint64_t bytes) const noexcept {
    auto offset = address - base_;
    if (offset < size_ && bytes <= size_ - offset) [[likely]] {
      auto last = (offset + bytes - 1) >> granule_shift;
      for (auto i = offset >> granule_shift; i <= last; ++i)
        if (backed_[i].load(std::memory_order_relaxed) == 0)
          return false;
      return true;
    }
    return usable_elsewhere(address, bytes);
  }

  /// Tells whether the whole granule around this address is memory of the
  /// window.
  bool in_granule(device_address address) const noexcept {
    auto offset = address - base_;
    return offset < size_ && backed_[offset >> granule_shift].load(
                                 std::memory_order_relaxed) != 0;
  }

private:
  struct range {
    device_address begin = 0, end = 0;
  };

  bool usable_elsewhere(device_address address,
                        std::uint64_t bytes) const noexcept;

  device_address base_ = 0;
  std::uint64_t size_ = 0; // 0 until the window is reserved
  std::unique_ptr<std::atomic<std::uint8_t>[]> backed_;
  mutable std::mutex mutex_; // guards attached_
  std::vector<range> attached_;
};

} // namespace vgpu::device::cpu
