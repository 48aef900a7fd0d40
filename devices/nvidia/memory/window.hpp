// A vGPU's window of addresses on the real device, and the memory behind it.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/ids.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace vgpu::device::nvidia {

/// Backs granules of the window with memory of the device. What was given back
/// is kept for a while, up to `kept_bytes`: programs free and allocate the same
/// sizes again and again. Thread-safe; the caller's threads have the context.
class window {
public:
  /// Given back, still mapped, at most.
  static constexpr std::uint64_t kept_bytes = std::uint64_t{64} << 20;

  /// `reached_by`: other devices of the session, which copy to and from here.
  explicit window(driver_ptr api, CUdevice device,
                  const std::vector<CUdevice>& reached_by = {});

  /// Gives those that reach it this access to a mapped range.
  status set_access(device_address address, std::uint64_t bytes,
                    CUmemAccess_flags flags);

  /// Takes the addresses; a fault when they are not free.
  status reserve(device_address base);

  bool holds(device_address address) const noexcept {
    return base_ != 0 && address - base_ < window_bytes;
  }

  /// Backs a range of whole granules. What is fresh from the driver is zeroed;
  /// what this session gave back comes as it was left.
  status map(device_address address, std::uint64_t bytes);

  /// The range is nobody's from now on, but work may still use it: release()
  /// must follow for the same range, once, when that is done.
  status retire(device_address address, std::uint64_t bytes);
  void release(device_address address, std::uint64_t bytes);

  /// Whole blocks around a mapped range, as descriptors that another process
  /// can import. They are not kept when they are given back: what comes to
  /// these addresses later is no business of that process.
  result<shared_granules> share(device_address address, std::uint64_t bytes);

  /// Nothing is mapped in this range afterwards: what was kept there goes. A
  /// fault where something is in use.
  status vacate(device_address address, std::uint64_t bytes);
  /// Calls `f` with all granules that are in use, or with nothing if this one
  /// is; they stay until it returns, and who maps or unmaps waits. A fault
  /// where this one is not.
  template <class F>
  status with_used(F f) const {
    std::lock_guard guard{mutex_};
    return f(used_granules());
  }
  template <class F>
  status while_used(device_address at, F f) const {
    std::lock_guard guard{mutex_};
    if (auto ok = check_used(at); !ok)
      return ok;
    return f();
  }

  /// Gives the driver all that is kept. Whether there was any.
  bool spare();

  /// Bytes of the device's memory behind the window.
  std::uint64_t backed_bytes() const;

private:
  struct granule {
    bool used = false;
    std::uint32_t leaving = 0; // releases to come
  };
  /// What was created in one piece, and can only go in one piece.
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
