// Memory that the program maps into its window by itself.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "devices/nvidia/memory/window.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace vgpu::device::nvidia {

/// Maps the session's memory handles to the driver's, and the memory to the
/// program's addresses, as memory_unit and sharing_unit say. One thread, with
/// the context current, makes all calls.
class physical_memory {
public:
  physical_memory(driver_ptr api, CUdevice device, window& into);

  /// Creates zeroed memory without an address.
  status create(memory_id id, std::uint64_t bytes);
  /// Creates memory from another process's memory, which has one piece or
  /// several.
  status import(memory_id id, std::uint64_t bytes, const shared_object& from);
  /// Implements sharing_unit::share_memory().
  result<shared_granules> share(memory_id id);
  /// Forgets the handle. The driver keeps the memory while it is mapped.
  status destroy(memory_id id);
  /// Maps the whole memory, without access.
  status map(device_address address, std::uint64_t bytes, memory_id id);
  /// Unmaps exactly the range of one map().
  status unmap(device_address address, std::uint64_t bytes);
  status set_access(device_address address, std::uint64_t bytes,
                    memory_access access);

private:
  /// Describes memory that the driver maps and unmaps as a whole.
  struct piece {
    CUmemGenericAllocationHandle handle = 0;
    std::uint64_t bytes = 0;
  };

  struct memory {
    std::vector<piece> pieces;
    bool foreign = false;
  };

  status release(const std::vector<piece>& pieces);
  status unmap_pieces(device_address address, const std::vector<piece>& pieces,
                      std::size_t count);

  driver_ptr api_;
  window& into_;
  CUmemAllocationProp properties_{};
  std::unordered_map<memory_id, memory> memories_;
  /// Holds the pieces of memory that is mapped in several, by its address.
  std::unordered_map<device_address, std::vector<piece>> in_pieces_;
};

} // namespace vgpu::device::nvidia
