// Memory of the window that other processes have too.
#pragma once

#include "devices/cpu/memory/memory_map.hpp"
#include "devices/interface/sharing_unit.hpp"

#include <map>

namespace vgpu::device::cpu {

/// A file without a name that has these contents, and cannot be cut.
result<shared_descriptor> to_file(const void* from, std::uint64_t bytes);

/// Ordinary memory of a window is this process's alone. What is shared is moved
/// into files without a name, which are mapped where it lay. One thread, while
/// nothing else uses that memory.
class shared_memory {
public:
  explicit shared_memory(memory_map& in) : in_(in) {}

  /// As sharing_unit::share_memory(). The range is backed.
  result<shared_granules> share(device_address address, std::uint64_t bytes);
  /// These granules are somebody else's from now on.
  void forget(device_address address, std::uint64_t bytes);

private:
  struct part {
    std::uint64_t bytes = 0;
    shared_descriptor file;
  };

  status move(device_address address, std::uint64_t bytes);

  memory_map& in_;
  std::map<device_address, part> parts_; // by where they begin
};

} // namespace vgpu::device::cpu
