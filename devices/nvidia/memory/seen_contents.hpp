// Which granules changed, as fingerprints of their contents tell.
#pragma once

#include "devices/nvidia/memory/fingerprint_kernel.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace vgpu::device::nvidia {

/// Compares what granules held when they were looked at. Thread-safe.
class seen_contents {
public:
  /// What all granules hold now, in any order: the number of this look, larger
  /// than all before, never 0.
  std::uint64_t look(std::span<const device_address> granules,
                     std::span<const fingerprint> what);

  /// What was copied of a granule after the latest look. Where that is not what
  /// was seen then it counts as changed since: also if it is as before when it
  /// is looked at again.
  void copied(device_address granule, const fingerprint& what);

  /// Whether a granule may have changed after that look, up to the latest, or
  /// was not there.
  bool changed_since(device_address granule, std::uint64_t look) const;

private:
  struct seen {
    fingerprint what;
    std::uint64_t changed = 0; // after this look
  };
  mutable std::mutex mutex_;
  std::uint64_t looks_ = 0;
  std::map<device_address, seen> granules_;
};

} // namespace vgpu::device::nvidia
