// Memory of a window that lies in files.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <set>
#include <vector>

namespace vgpu::device::cpu {

/// Maps granules of a window to files, and remembers them. The host keeps all
/// of a file while any part of it is mapped, so released granules are punched
/// out of the file first. One thread makes all calls, except that any thread
/// may call empty().
class adopted_files {
public:
  /// Implements file_unit::adopt() for granules that are backed.
  status map(device_address address, std::uint64_t bytes, int file,
             std::uint64_t offset);
  /// Forgets the granules of this range that lie in a file, and returns them.
  std::vector<device_address> take(device_address address, std::uint64_t bytes);
  /// Returns the memory of these granules to the host while they are mapped.
  static void empty(const std::vector<device_address>& granules) noexcept;

private:
  std::set<device_address> granules_;
};

} // namespace vgpu::device::cpu
