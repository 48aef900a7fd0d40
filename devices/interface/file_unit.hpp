// Optional interface of a device: memory whose contents lie in a file.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu::device {

/// A device whose memory is host memory implements this interface, so that a
/// worker maps the contents it starts with and need not copy them. As with
/// `device`, one thread calls it.
class file_unit {
public:
  virtual ~file_unit() = default;

  /// Makes `bytes` bytes of the file, from `offset` on, the contents of
  /// [address, address + bytes), which map() backs. From then on the memory is
  /// the file's, and writes go into the file.
  ///
  /// Address and size are whole granules, and the offset is a multiple of the
  /// host's page size. The file lies in memory; no other process writes to it
  /// or truncates it. The device must be at rest. After a fault nothing has
  /// changed.
  virtual status adopt(device_address address, std::uint64_t bytes, int file,
                       std::uint64_t offset) = 0;
};

} // namespace vgpu::device
