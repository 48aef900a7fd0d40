// A vGPU's window of addresses on an NVIDIA GPU, and the device memory that
// backs it.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/ids.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace vgpu::device::nvidia {

/// Backs granules of the window with device memory. Memory that was released is
/// kept for reuse, up to `kept_bytes`, because programs free and allocate the
/// same sizes again and again. Thread-safe; the calling thread has the context
/// current.
class window {
public:
  /// At most this many released bytes stay mapped.
  static constexpr std::uint64_t kept_bytes = std::uint64_t{64} << 20;

  /// Makes an empty window. `reached_by` lists other devices of the session,
  /// which copy to and from this memory.
  explicit window(driver_ptr api, CUdevice device,
                  const std::vector<CUdevice>& reached_by = {});

  /// Gives this device and those of `reached_by` this access to a mapped range.
  status set_access(device_address address, std::uint64_t bytes,
                    CUmemAccess_flags flags);

  /// Reserves the window's addresses. Returns a fault when they are not free.
  status reserve(device_address base);

  /// Tells whether the address lies in the window.
  bool holds(device_address address) const noexcept {
    return base_ != 0 && address - base_ < window_bytes;
  }

  /// Backs a range of whole granules. Fresh memory is zeroed; memory that this
  /// session released comes back with its former contents.
  status map(device_address address, std::uint64_t bytes);

  /// Ends the program's use of the range, while enqueued work may still use it.
  /// The caller calls release() once, for the same range, when that work is
  /// done.
  status retire(device_address address, std::uint64_t bytes);
  /// Releases a range that was retired, once the work that used it is done.
  void release(device_address address, std::uint64_t bytes);

  /// Returns whole blocks around a mapped range as descriptors that another
  /// process can import. These blocks are not kept after their release, because
  /// the other process must not see their later contents.
  result<shared_granules> share(device_address address, std::uint64_t bytes);

  /// Makes sure that nothing is mapped in this range, by dropping kept memory.
  /// Returns a fault where memory of the range is in use.
  status vacate(device_address address, std::uint64_t bytes);
  /// Calls `f` with all granules that are in use. They stay mapped until `f`
  /// returns; a thread that maps or unmaps waits.
  template <class F>
  status with_used(F f) const {
    std::lock_guard guard{mutex_};
    return f(used_granules());
  }
  /// Calls `f` with a function that says whether a granule is in use, and a
  /// fault otherwise. Such granules stay mapped until `f` returns; a thread
  /// that maps or unmaps waits.
  template <class F>
  status while_kept(F f) const {
    std::lock_guard guard{mutex_};
    return f([this](device_address at) { return check_used(at); });
  }

  /// Returns all kept memory to the driver. Tells whether there was any.
  bool spare();

  /// Returns the bytes of device memory that back the window.
  std::uint64_t backed_bytes() const;

private:
  struct granule {
    bool used = false;
    std::uint32_t leaving = 0; // release() calls still to come
  };
  /// Holds memory that was created in one piece, and can be freed only in one
  /// piece.
  struct block {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    std::vector<granule> granules;
    bool shared = false;
  };
  using block_map = std::map<device_address, block>;

  status check_range(const char* what, device_address address,
                     std::uint64_t bytes) const;
  block_map::iterator find(device_address address);
  granule& granule_at(block_map::iterator of, device_address address);
  void claim(device_address address, device_address end);
  void unclaim(device_address address, device_address end);
  void settle(device_address address, device_address end);
  status create(device_address address, std::uint64_t bytes);
  status create_block(device_address address, std::uint64_t bytes);
  void drop(block_map::iterator which);
  void drop_idle(std::uint64_t down_to);
  static bool idle(const block& x);
  std::vector<device_address> used_granules() const;
  status check_used(device_address at) const;

  driver_ptr api_;
  CUmemAllocationProp properties_{};
  std::vector<CUmemAccessDesc> access_;
  device_address base_ = 0;
  mutable std::mutex mutex_;
  block_map blocks_;
  std::deque<device_address> idle_; // bases of kept blocks, oldest first
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t backed_ = 0;
};

} // namespace vgpu::device::nvidia
