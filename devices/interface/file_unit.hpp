// Memory whose contents lie in a file already: what a device can do besides
// device.hpp.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu::device {

/// A device whose memory is the host's is one of these too: what a worker
/// begins with is mapped in place of being copied. Called as the device is: by
/// one thread.
class file_unit {
public:
  virtual ~file_unit() = default;

  /// Makes `bytes` bytes of the file, from `offset` on, the contents of
  /// [address, address + bytes), which map() backs: from now on the memory is
  /// the file's, and what is written goes there. Address and size are whole
  /// granules, the offset is a multiple of the host's page size, and the file
  /// is one in memory that nobody else writes to and nobody cuts. Only while
  /// the device is at rest. On a fault nothing has changed.
  virtual status adopt(device_address address, std::uint64_t bytes, int file,
                       std::uint64_t offset) = 0;
};

} // namespace vgpu::device
