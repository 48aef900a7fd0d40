// Memory that a program places in addresses by itself.
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

/// Physical memory: pages that lie somewhere in the process, and are mapped
/// into the window as often as the program likes. They stay while they have a
/// handle or are mapped. One thread; look-ups in the memory_map go on.
class physical_store {
public:
  explicit physical_store(memory_map& into) : into_(into) {}

  status create(memory_id id, std::uint64_t bytes);
  /// Pages of another process; they count as none here.
  status import(memory_id id, std::uint64_t bytes, const shared_object& from);
  /// Moves what create() made into a file that another process can import; its
  /// contents and mappings stay. Nothing may be using them. The same answer
  /// each time.
  result<shared_granules> share(memory_id id);
  /// Bytes that nobody can reach any more.
  result<std::uint64_t> destroy(memory_id id);

  /// Without access.
  status map(device_address address, std::uint64_t bytes, memory_id id);
  /// Of exactly what map() made. Bytes that nobody can reach any more.
  result<std::uint64_t> unmap(device_address address, std::uint64_t bytes);
  status set_access(device_address address, std::uint64_t bytes, bool usable);

private:
  struct pages;
  struct mapped {
    std::uint64_t bytes = 0;
    std::shared_ptr<pages> of;
    bool usable = false;
  };

  result<mapped*> find(device_address address, std::uint64_t bytes);
  status add(memory_id id, std::shared_ptr<pages> made);
  /// At all places where they are mapped, with the access that each has.
  status show_all(const pages& of, void* from);
  status move_to_file(pages& x);
  static std::uint64_t let_go(std::shared_ptr<pages> x);

  memory_map& into_;
  std::unordered_map<memory_id, std::shared_ptr<pages>> memories_;
  std::map<device_address, mapped> mapped_;
};

} // namespace vgpu::device::cpu
