// Memory of the window that other processes share.
#pragma once

#include "devices/cpu/memory/memory_map.hpp"
#include "devices/interface/sharing_unit.hpp"

#include <map>

namespace vgpu::device::cpu {

/// Makes an anonymous file with these contents, which cannot be truncated.
result<shared_descriptor> to_file(const void* from, std::uint64_t bytes);

/// Moves memory of the window, which is private to this process, into anonymous
/// files when it is shared, and maps them at the same addresses. One thread
/// makes all calls, while nothing else uses that memory.
class shared_memory {
public:
  explicit shared_memory(memory_map& in) : in_(in) {}

  /// Implements sharing_unit::share_memory() for a range that is backed.
  result<shared_granules> share(device_address address, std::uint64_t bytes);
  /// Forgets these granules, because they become other memory.
  void forget(device_address address, std::uint64_t bytes);

private:
  struct part {
    std::uint64_t bytes = 0;
    shared_descriptor file;
  };

  status move(device_address address, std::uint64_t bytes);

  memory_map& in_;
  std::map<device_address, part> parts_; // by address
};

} // namespace vgpu::device::cpu
