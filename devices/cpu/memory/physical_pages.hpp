// Memory that the program maps by itself.
#pragma once

#include "devices/cpu/memory/memory_map.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

namespace vgpu::device::cpu {

/// Holds physical memory: pages of the process, which the program can map into
/// the window any number of times. Pages stay while they have a handle or are
/// mapped. One thread makes all calls, while other threads look up addresses in
/// the memory_map.
class physical_store {
public:
  explicit physical_store(memory_map& into) : into_(into) {}

  /// Creates zeroed pages.
  status create(memory_id id, std::uint64_t bytes);
  /// Creates memory from another process's pages, which count for no quota
  /// here.
  status import(memory_id id, std::uint64_t bytes, const shared_object& from);
  /// Moves memory of create() into a file that another process can import.
  /// Contents and mappings stay. Nothing may use the memory meanwhile. Repeated
  /// calls return the same answer.
  result<shared_granules> share(memory_id id);
  /// Destroys the handle. Returns how many bytes became unreachable.
  result<std::uint64_t> destroy(memory_id id);

  /// Maps the whole memory, without access.
  status map(device_address address, std::uint64_t bytes, memory_id id);
  /// Maps shared memory of the process, without access. It stays the caller's,
  /// and counts for no quota here.
  status map_host(device_address address, std::uint64_t bytes, void* from);
  /// Unmaps exactly the range of one map() or map_host(). Returns how many
  /// bytes became unreachable.
  result<std::uint64_t> unmap(device_address address, std::uint64_t bytes);
  /// Allows or forbids access to exactly the range of one map() or map_host().
  status set_access(device_address address, std::uint64_t bytes, bool usable);

private:
  struct pages;
  struct mapped {
    std::uint64_t bytes = 0;
    std::shared_ptr<pages> of; // null for host memory
    bool usable = false;
  };

  result<mapped*> find(device_address address, std::uint64_t bytes);
  status add(memory_id id, std::shared_ptr<pages> made);
  /// Maps the pages from `from`, wherever they are mapped, with the access that
  /// each mapping has.
  status show_all(const pages& of, void* from);
  status move_to_file(pages& x);
  static std::uint64_t release(std::shared_ptr<pages> x);

  memory_map& into_;
  std::unordered_map<memory_id, std::shared_ptr<pages>> memories_;
  std::map<device_address, mapped> mapped_;
};

} // namespace vgpu::device::cpu
