// Tracks changes of the window's memory, and copies it, while work runs.
#pragma once

#include "devices/interface/change_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "devices/nvidia/memory/seen_contents.hpp"
#include "devices/nvidia/memory/spare_memory.hpp"
#include "devices/nvidia/memory/staging.hpp"
#include "devices/nvidia/memory/window.hpp"

#include <functional>
#include <memory>
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
      : api_(api), window_(of), staging_(api), device_(device),
        spare_(api, device) {}

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
  /// Implements change_unit::pin(). `enter` makes the context current.
  std::unique_ptr<pinned_memory> pin(std::span<std::byte> memory,
                                     std::function<void()> enter) const;
  /// Implements change_unit::read_at_rest().
  void read_at_rest(std::span<peeked> pieces);
  /// Implements change_unit::make_room(). `enter` makes the context current.
  result<std::unique_ptr<contents_room>> make_room(std::uint64_t granules,
                                                   std::function<void()> enter);

private:
  class kept_room;
  /// Holds where each piece goes.
  using buffers = std::span<std::byte* const>;
  /// One launch takes at most this many granules.
  static constexpr std::size_t at_once = 4096;
  /// So many pieces are copied with one wait. Where several processes use the
  /// GPU, a wait can last for their turns.
  static constexpr std::size_t copied_at_once = 16;
  /// One launch reads at most so many pieces of any size.
  static constexpr std::size_t gathered_at_once = 65536;

  status take_memory();
  void peek_some(std::span<peeked> pieces,
                 const std::function<status(buffers)>& copy);
  status copy(std::span<peeked> pieces, buffers to);
  status read_together(std::span<peeked> pieces, std::byte* room);
  status gather(std::span<const gathered> list, std::size_t bytes,
                std::byte* room);
  status copy_on_device(std::span<peeked> pieces,
                        std::vector<device_address>& granules);
  status copy_out(std::span<peeked> pieces,
                  std::span<const device_address> granules, buffers to);
  status keep(std::span<const device_address> granules);
  status run(std::span<const device_address> granules,
             std::span<fingerprint> out);
  status wait();

  driver_ptr api_;
  window& window_;
  staging staging_;
  seen_contents seen_;
  std::mutex mutex_; // guards what follows
  CUdevice device_;
  CUfunction kernel_ = nullptr;
  CUfunction gather_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;
  device_address copy_ = 0; // the address of granules for copies
  device_address list_ = 0; // the address of a list of granule addresses
  device_address out_ = 0;  // the address of the fingerprints of that list
  spare_memory spare_;      // holds kept granules
};

} // namespace vgpu::device::nvidia
