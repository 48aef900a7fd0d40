// Memory that a program places in its window by itself.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "devices/nvidia/memory/window.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace vgpu::device::nvidia {

/// The driver's own handles, mapped at the program's addresses. One thread,
/// which has the context.
class physical_memory {
public:
  physical_memory(driver_ptr api, CUdevice device, window& into);

  status create(memory_id id, std::uint64_t bytes);
  /// What another process has made, in one piece or in several.
  status import(memory_id id, std::uint64_t bytes, const shared_object& from);
  /// As sharing_unit::share_memory().
  result<shared_granules> share(memory_id id);
  /// The driver keeps what is mapped.
  status destroy(memory_id id);
  status map(device_address address, std::uint64_t bytes, memory_id id);
  /// Of exactly what map() made.
  status unmap(device_address address, std::uint64_t bytes);
  status set_access(device_address address, std::uint64_t bytes,
                    memory_access access);

private:
  /// What the driver maps and unmaps as a whole.
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
  /// By address, of what is mapped in several pieces.
  std::unordered_map<device_address, std::vector<piece>> in_pieces_;
};

} // namespace vgpu::device::nvidia
