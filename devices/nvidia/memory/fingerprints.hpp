// Tracks changes of the window's memory, and copies it, while work runs.
#pragma once

#include "devices/interface/change_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "devices/nvidia/memory/seen_contents.hpp"
#include "devices/nvidia/memory/staging.hpp"
#include "devices/nvidia/memory/window.hpp"

#include <mutex>
#include <span>
#include <vector>

namespace vgpu::device::nvidia {

/// Finds changes by fingerprints of granules, which this device's own kernel
/// computes. The driver does not report the writes of kernels, but a GPU reads
/// its own memory quickly. Thread-safe; the calling thread has the context
/// current.
class fingerprints {
public:
  fingerprints(driver_ptr api, CUdevice device, window& of)
      : api_(api), device_(device), window_(of), staging_(api) {}

  /// Allocates what it needs on the device. The caller does this before it
  /// loads the program's first module, so that modules lie at the same
  /// addresses each time. After a fault the device works without change
  /// tracking.
  status open();

  /// Implements change_unit::mark().
  result<std::uint64_t> mark();
  /// Implements change_unit::changed_since().
  bool changed_since(device_address address, std::uint64_t mark) const {
    return seen_.changed_since(address / granule_bytes * granule_bytes, mark);
  }
  /// Implements change_unit::peek().
  void peek(std::span<peeked> pieces);

private:
  /// One launch takes at most this many granules.
  static constexpr std::size_t at_once = 4096;
  /// So many pieces are copied with one wait. Where several processes use the
  /// GPU, a wait can last for their turns.
  static constexpr std::size_t copied_at_once = 16;

  status take_room();
  void peek_some(std::span<peeked> pieces);
  status copy(std::span<peeked> pieces, std::span<staging::buffer> rooms);
  status copy_on_device(std::span<peeked> pieces,
                        std::vector<device_address>& granules);
  status run(std::span<const device_address> granules,
             std::span<fingerprint> out);
  status wait();

  driver_ptr api_;
  CUdevice device_;
  window& window_;
  staging staging_;
  seen_contents seen_;
  std::mutex mutex_; // guards what follows
  CUfunction kernel_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;
  device_address copy_ = 0; // the address of granules for copies
  device_address list_ = 0; // the address of a list of granule addresses
  device_address out_ = 0;  // the address of the fingerprints of that list
};

} // namespace vgpu::device::nvidia
