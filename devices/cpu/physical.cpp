#include "devices/cpu/physical.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>

namespace vgpu::device::cpu {

/// Shared and anonymous: such pages can be mapped anew from where they are.
struct physical_store::pages {
  void* at = nullptr;
  std::uint64_t bytes = 0;

  pages(void* where, std::uint64_t size) : at(where), bytes(size) {}
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() { munmap(at, bytes); }
};

status physical_store::create(memory_id id, std::uint64_t bytes) {
  auto at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return fault{CUDA_ERROR_OUT_OF_MEMORY,
                 std::string{"physical memory: the host gives none: "} +
                     std::strerror(errno)};
  auto made = std::make_shared<pages>(at, bytes);
  if (!memories_.emplace(id, std::move(made)).second)
    return fault{CUDA_ERROR_INVALID_VALUE, "physical memory " +
                                               std::to_string(id.value) +
                                               " exists already"};
  return {};
}

std::uint64_t physical_store::let_go(std::shared_ptr<pages> x) {
  return x.use_count() == 1 ? x->bytes : 0;
}

result<std::uint64_t> physical_store::destroy(memory_id id) {
  auto known = memories_.extract(id);
  if (known.empty())
    return fault{CUDA_ERROR_INVALID_VALUE, "physical memory " +
                                               std::to_string(id.value) +
                                               " does not exist"};
  return let_go(std::move(known.mapped()));
}

status physical_store::map(device_address address, std::uint64_t bytes,
                           memory_id id) {
  auto known = memories_.find(id);
  if (known == memories_.end() || bytes != known->second->bytes ||
      !into_.in_window(address, bytes))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a mapping is not the whole memory or leaves the window"};
  if (auto ok = into_.show(address, bytes, known->second->at); !ok)
    return ok;
  mapped_.insert_or_assign(address, mapped{bytes, known->second});
  return {};
}

result<physical_store::mapped*> physical_store::find(device_address address,
                                                     std::uint64_t bytes) {
  auto known = mapped_.find(address);
  if (known == mapped_.end() || known->second.bytes != bytes)
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "no memory is mapped at exactly these addresses"};
  return &known->second;
}

result<std::uint64_t> physical_store::unmap(device_address address,
                                            std::uint64_t bytes) {
  auto known = find(address, bytes);
  if (!known)
    return known.why();
  into_.release(address, bytes);
  auto of = std::move((*known)->of);
  mapped_.erase(address);
  return let_go(std::move(of));
}

status physical_store::set_access(device_address address, std::uint64_t bytes,
                                  bool usable) {
  if (auto known = find(address, bytes); !known)
    return known.why();
  return into_.open(address, bytes, usable);
}

} // namespace vgpu::device::cpu
