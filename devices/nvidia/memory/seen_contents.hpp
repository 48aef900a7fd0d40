// Finds changed granules by comparing fingerprints of their contents.
#pragma once

#include "devices/nvidia/memory/memory_kernels.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace vgpu::device::nvidia {

/// Compares the fingerprints that granules had at different calls of look().
/// Thread-safe.
class seen_contents {
public:
  /// Takes the fingerprints of all granules, in any order, as a new look.
  /// Returns the number of the look, which is larger than all before and never
  /// 0.
  std::uint64_t look(std::span<const device_address> granules,
                     std::span<const fingerprint> what);

  /// Takes the fingerprint of a copy that was made of a granule after the
  /// latest look. Where it differs from that look the granule counts as changed
  /// since, even if the next look finds its former contents.
  void copied(device_address granule, const fingerprint& what);

  /// Tells whether a granule may have changed between that look and the latest,
  /// or did not exist at that look.
  bool changed_since(device_address granule, std::uint64_t look) const;

private:
  struct seen {
    fingerprint what;
    std::uint64_t changed = 0; // the look after which it changed
  };
  mutable std::mutex mutex_;
  std::uint64_t looks_ = 0;
  std::map<device_address, seen> granules_;
};

} // namespace vgpu::device::nvidia
