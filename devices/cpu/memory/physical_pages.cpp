#include "devices/cpu/memory/physical_pages.hpp"

#include "devices/cpu/memory/shared_memory.hpp"
#include "schema/base/cuda_fault.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/mman.h>

namespace vgpu::device::cpu {

/// The pages are shared mappings, because only those can be mapped a second
/// time from where they are. Each part is one mapping.
struct physical_store::pages {
  void* at = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t counted = 0; // against this process's quota
  // The bytes of the mappings that the pages are made of.
  std::vector<std::uint64_t> parts;
  shared_descriptor file; // null until it is shared

  pages(void* where, std::uint64_t size)
      : at(where), bytes(size), counted(size), parts{size} {}
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() { munmap(at, bytes); }
};

status physical_store::create(memory_id id, std::uint64_t bytes) {
  auto at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return cuda_fault(
        CUDA_ERROR_OUT_OF_MEMORY,
        std::string{"physical memory: cannot allocate host memory: "} +
            std::strerror(errno));
  return add(id, std::make_shared<pages>(at, bytes));
}

/// The kernel guarantees, by the file's seals, that a part's file is as long as
/// it says and stays so. Access beyond a file's end would end the process with
/// a signal.
status physical_store::import(memory_id id, std::uint64_t bytes,
                              const shared_object& from) {
  if (auto ok = check_parts(from, bytes); !ok)
    return ok;
  auto& parts = from.words;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (auto size = sealed_size(from.descriptors[i]->get());
        !size || *size != parts[i])
      return cuda_fault(
          CUDA_ERROR_INVALID_VALUE,
          "shared memory: the file of the other process is not sealed at " +
              std::to_string(parts[i]) + " bytes");
  auto refused = [] {
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"shared memory: cannot map it: "} +
                          std::strerror(errno));
  };
  auto* at = mmap(nullptr, bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return refused();
  auto made = std::make_shared<pages>(at, bytes);
  made->counted = 0;
  made->parts = parts;
  auto* next = static_cast<std::byte*>(at);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (mmap(next, parts[i], PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, from.descriptors[i]->get(),
             0) == MAP_FAILED)
      return refused();
    next += parts[i];
  }
  return add(id, std::move(made));
}

status physical_store::show_all(const pages& of, void* from) {
  for (auto& [address, each] : mapped_) {
    if (each.of.get() != &of)
      continue;
    if (auto ok = into_.show(address, of.bytes, from); !ok)
      return ok;
    if (auto ok = into_.open(address, of.bytes, each.usable); !ok)
      return ok;
  }
  return {};
}

/// No thread writes to the pages meanwhile. After a failure half-way, the
/// former pages are mapped again.
status physical_store::move_to_file(pages& x) {
  auto file = to_file(x.at, x.bytes);
  if (!file)
    return file.why();
  auto* at = mmap(nullptr, x.bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE, (*file)->get(), 0);
  if (at == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"shared memory: cannot map it: "} +
                          std::strerror(errno));
  if (auto ok = show_all(x, at); !ok) {
    (void)show_all(x, x.at);
    munmap(at, x.bytes);
    return ok;
  }
  munmap(std::exchange(x.at, at), x.bytes);
  x.file = std::move(*file);
  return {};
}

result<shared_granules> physical_store::share(memory_id id) {
  auto known = memories_.find(id);
  if (known == memories_.end() || known->second->counted == 0)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "physical memory " + std::to_string(id.value) +
                          " was not created by this process");
  auto& x = *known->second;
  if (!x.file)
    if (auto ok = move_to_file(x); !ok)
      return ok.why();
  return shared_granules{.what = {{x.bytes}, {x.file}}, .bytes = x.bytes};
}

status physical_store::add(memory_id id, std::shared_ptr<pages> made) {
  if (!memories_.emplace(id, std::move(made)).second)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "physical memory " +
                                                    std::to_string(id.value) +
                                                    " exists already");
  return {};
}

std::uint64_t physical_store::release(std::shared_ptr<pages> x) {
  return x.use_count() == 1 ? x->counted : 0;
}

result<std::uint64_t> physical_store::destroy(memory_id id) {
  auto known = memories_.extract(id);
  if (known.empty())
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "physical memory " +
                                                    std::to_string(id.value) +
                                                    " does not exist");
  return release(std::move(known.mapped()));
}

status physical_store::map(device_address address, std::uint64_t bytes,
                           memory_id id) {
  auto known = memories_.find(id);
  if (known == memories_.end() || bytes != known->second->bytes ||
      !into_.in_window(address, bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a mapping is not the whole memory or leaves the window");
  auto* from = static_cast<std::byte*>(known->second->at);
  auto at = address;
  for (auto part : known->second->parts) {
    if (auto ok = into_.show(at, part, from); !ok) {
      into_.release(address, bytes);
      return ok;
    }
    at += part;
    from += part;
  }
  mapped_.insert_or_assign(address, mapped{bytes, known->second});
  return {};
}

status physical_store::map_host(device_address address, std::uint64_t bytes,
                                void* from) {
  if (!into_.in_window(address, bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a mapping of host memory leaves the window");
  if (auto ok = into_.show(address, bytes, from); !ok) {
    into_.release(address, bytes);
    return ok;
  }
  mapped_.insert_or_assign(address, mapped{bytes, nullptr});
  return {};
}

result<physical_store::mapped*> physical_store::find(device_address address,
                                                     std::uint64_t bytes) {
  auto known = mapped_.find(address);
  if (known == mapped_.end() || known->second.bytes != bytes)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "no memory is mapped at exactly these addresses");
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
  return release(std::move(of));
}

status physical_store::set_access(device_address address, std::uint64_t bytes,
                                  bool usable) {
  auto known = find(address, bytes);
  if (!known)
    return known.why();
  (*known)->usable = usable;
  return into_.open(address, bytes, usable);
}

} // namespace vgpu::device::cpu
