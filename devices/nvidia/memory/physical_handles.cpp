#include "devices/nvidia/memory/physical_handles.hpp"

#include "devices/nvidia/memory/exported_memory.hpp"
#include "schema/base/cuda_fault.hpp"

#include <string>

namespace vgpu::device::nvidia {

physical_memory::physical_memory(driver_ptr api, CUdevice device, window& into)
    : api_(std::move(api)), into_(into),
      properties_(exportable_memory(*api_, device)) {}

status physical_memory::create(memory_id id, std::uint64_t bytes) {
  CUmemGenericAllocationHandle made = 0;
  auto code = api_->cuMemCreate(&made, bytes, &properties_, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY && into_.spare())
    code = api_->cuMemCreate(&made, bytes, &properties_, 0);
  if (code != CUDA_SUCCESS)
    return api_->failed(code, "cannot create " + std::to_string(bytes) +
                                  " bytes of device memory");
  memories_.insert_or_assign(id, memory{.pieces = {{made, bytes}}});
  return {};
}

/// Imports each part. The driver does not report how many bytes a descriptor's
/// memory has, but it maps no piece of another size.
status physical_memory::import(memory_id id, std::uint64_t bytes,
                               const shared_object& from) {
  if (auto ok = check_parts(from, bytes); !ok)
    return ok;
  auto& parts = from.words;
  std::vector<piece> made;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    piece x{0, parts[i]};
    // The driver takes the descriptor's number in place of a pointer.
    auto* file = reinterpret_cast<void*>(
        static_cast<std::intptr_t>(from.descriptors[i]->get()));
    if (auto code = api_->cuMemImportFromShareableHandle(
            &x.handle, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        code != CUDA_SUCCESS) {
      (void)release(made);
      return api_->failed(code, "cannot import another process's memory");
    }
    made.push_back(x);
  }
  memories_.insert_or_assign(id, memory{std::move(made), true});
  return {};
}

result<shared_granules> physical_memory::share(memory_id id) {
  if (!is_exportable(properties_))
    return not_exportable();
  auto known = memories_.find(id);
  if (known == memories_.end() || known->second.foreign)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "physical memory " + std::to_string(id.value) +
                          " was not created by this process");
  shared_granules out;
  for (auto& x : known->second.pieces) {
    auto file = export_memory(*api_, x.handle);
    if (!file)
      return file.why();
    out.what.words.push_back(x.bytes);
    out.what.descriptors.push_back(std::move(*file));
    out.bytes += x.bytes;
  }
  return out;
}

status physical_memory::release(const std::vector<piece>& pieces) {
  status first;
  for (auto& x : pieces)
    if (auto ok = api_->check(api_->cuMemRelease(x.handle), "cuMemRelease");
        first)
      first = ok;
  return first;
}

status physical_memory::destroy(memory_id id) {
  auto known = memories_.extract(id);
  if (known.empty())
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "physical memory " +
                                                    std::to_string(id.value) +
                                                    " does not exist");
  return release(known.mapped().pieces);
}

status physical_memory::map(device_address address, std::uint64_t bytes,
                            memory_id id) {
  auto known = memories_.find(id);
  if (known == memories_.end() || !into_.holds(address))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "physical memory can be mapped in the window only");
  if (auto ok = into_.vacate(address, bytes); !ok)
    return ok;
  auto& pieces = known->second.pieces;
  if (pieces.size() == 1)
    return api_->check(
        api_->cuMemMap(address, bytes, 0, pieces.front().handle, 0),
        "cuMemMap");
  auto at = address;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (auto code = api_->cuMemMap(at, pieces[i].bytes, 0, pieces[i].handle, 0);
        code != CUDA_SUCCESS) {
      (void)unmap_pieces(address, pieces, i);
      return api_->failed(code, "cuMemMap");
    }
    at += pieces[i].bytes;
  }
  in_pieces_.insert_or_assign(address, pieces);
  return {};
}

status physical_memory::unmap_pieces(device_address address,
                                     const std::vector<piece>& pieces,
                                     std::size_t count) {
  status first;
  for (std::size_t i = 0; i < count; ++i) {
    if (auto ok = api_->check(api_->cuMemUnmap(address, pieces[i].bytes),
                              "cuMemUnmap");
        first)
      first = ok;
    address += pieces[i].bytes;
  }
  return first;
}

status physical_memory::unmap(device_address address, std::uint64_t bytes) {
  if (auto known = in_pieces_.extract(address); !known.empty())
    return unmap_pieces(address, known.mapped(), known.mapped().size());
  return api_->check(api_->cuMemUnmap(address, bytes), "cuMemUnmap");
}

status physical_memory::set_access(device_address address, std::uint64_t bytes,
                                   memory_access access) {
  return into_.set_access(address, bytes,
                          static_cast<CUmemAccess_flags>(access));
}

} // namespace vgpu::device::nvidia
