// Memory of a window that lies in files.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <set>
#include <vector>

namespace vgpu::device::cpu {

/// Which granules of a window are a file's. As long as anything of a file is
/// mapped, the host keeps all of it: what is given back is taken out of the
/// file first. One thread; what empty() is called with, any.
class adopted_files {
public:
  /// file_unit::adopt(), of granules that are backed.
  status map(device_address address, std::uint64_t bytes, int file,
             std::uint64_t offset);
  /// Forgets those of this range that are a file's: these.
  std::vector<device_address> take(device_address address, std::uint64_t bytes);
  /// Gives the memory of granules back, while they are still mapped.
  static void empty(const std::vector<device_address>& granules) noexcept;

private:
  std::set<device_address> granules_;
};

} // namespace vgpu::device::cpu
