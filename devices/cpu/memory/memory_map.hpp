// Which device addresses have memory behind them.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::device::cpu {

/// One window of addresses, backed granule by granule, plus attached ranges of
/// host memory. Owns the window's mapping. Looking up is safe from any thread
/// and takes no lock in the window; the rest is for one thread at a time with
/// look-ups going on.
class memory_map {
public:
  static constexpr unsigned granule_shift = 21;
  static constexpr std::uint64_t granules = window_bytes >> granule_shift;

  memory_map() = default;
  memory_map(const memory_map&) = delete;
  memory_map& operator=(const memory_map&) = delete;
  ~memory_map();

  status reserve(device_address base);
  device_address base() const noexcept { return base_; }

  /// Whether [address, address + bytes) is whole granules of the window.
  bool in_window(device_address address, std::uint64_t bytes) const noexcept;

  /// Backs the range with zeroed memory, also where it had memory before.
  status back(device_address address, std::uint64_t bytes);
  /// Takes the memory away.
  void release(device_address address, std::uint64_t bytes);

  /// Shows shared memory of the process in the window too, without access.
  status show(device_address address, std::uint64_t bytes, void* from);
  /// Gives access to what show() placed, or takes it.
  status open(device_address address, std::uint64_t bytes, bool usable);

  /// Puts a file's memory in place of what backs the range. The caller has
  /// copied the contents, and nothing uses them.
  status replace(device_address address, std::uint64_t bytes, int file);

  void attach(device_address address, std::uint64_t bytes);
  bool detach(device_address address, std::uint64_t bytes);

  /// Whether attach() was told of all of it, here.
  bool is_attached(device_address address, std::uint64_t bytes) const noexcept;

  /// Whether a kernel may touch [address, address + bytes); bytes >= 1.
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

  /// Whether the whole granule around that address is memory of the window.
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
