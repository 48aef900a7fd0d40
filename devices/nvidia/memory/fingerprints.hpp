// Looks at the window's memory while work goes on: what changed, and copies.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "devices/nvidia/memory/seen_contents.hpp"
#include "devices/nvidia/memory/staging.hpp"
#include "devices/nvidia/memory/window.hpp"

#include <mutex>
#include <span>
#include <vector>

namespace vgpu::device::nvidia {

/// Nothing of NVIDIA's driver tells what a kernel wrote, but a GPU reads its
/// own memory faster than anything else does. Thread-safe; the caller's threads
/// have the context.
class fingerprints {
public:
  fingerprints(driver_ptr api, CUdevice device, window& of)
      : api_(api), device_(device), window_(of), staging_(api) {}

  /// Takes what it needs of the device: before the program's first module, so
  /// that those lie in the same places each time. A fault: there is none of
  /// this, and the device is as good as any.
  status open();

  /// As change_unit.
  result<std::uint64_t> mark();
  bool changed_since(device_address address, std::uint64_t mark) const {
    return seen_.changed_since(address / granule_bytes * granule_bytes, mark);
  }
  status peek(std::span<std::byte> into, device_address from);

private:
  /// Granules that are looked at by one launch.
  static constexpr std::size_t at_once = 4096;

  status take_room();
  status run(std::span<const device_address> granules,
             std::span<fingerprint> out);
  status wait();

  driver_ptr api_;
  CUdevice device_;
  window& window_;
  staging staging_;
  seen_contents seen_;
  std::mutex mutex_; // of what follows
  CUfunction kernel_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;
  device_address copy_ = 0; // a granule,
  device_address list_ = 0; // addresses of granules,
  device_address out_ = 0;  // and what they hold
};

} // namespace vgpu::device::nvidia
