// Entry points of virtual memory management.
#include "interposer/api/entry.hpp"

#include "interposer/memory/virtual_memory.hpp"
#include "interposer/session/session.hpp"

using namespace vgpu::interposer;

namespace {

/// Runs a body as guarded() does, without a context, where the session has not
/// failed.
template <class Body>
CUresult in_session(const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    if (auto code = process::the_session().sticky(); code != CUDA_SUCCESS)
      return code;
    return body();
  });
}

/// Returns the current context's device, or the first one.
std::uint8_t current_device() {
  auto* current = current_context();
  return current == nullptr ? std::uint8_t{0} : current->device_index();
}

} // namespace

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* ptr, size_t size,
                                     size_t alignment, CUdeviceptr,
                                     unsigned long long flags) {
  return in_session([&] {
    if (ptr == nullptr || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return virtual_memories().reserve(current_device(), size, alignment, *ptr);
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return in_session([&] { return virtual_memories().free(ptr, size); });
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp* prop,
                             unsigned long long flags) {
  return in_session([&] {
    if (handle == nullptr || prop == nullptr || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return virtual_memories().create(current_device(), size, *prop, *handle);
  });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return in_session([&] { return virtual_memories().release(handle); });
}

CUresult CUDAAPI cuMemExportToShareableHandle(
    void* shareableHandle, CUmemGenericAllocationHandle handle,
    CUmemAllocationHandleType handleType, unsigned long long flags) {
  return in_session([&]() -> CUresult {
    if (shareableHandle == nullptr || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    return virtual_memories().give(handle, *static_cast<int*>(shareableHandle));
  });
}

CUresult CUDAAPI cuMemImportFromShareableHandle(
    CUmemGenericAllocationHandle* handle, void* osHandle,
    CUmemAllocationHandleType shHandleType) {
  return in_session([&]() -> CUresult {
    if (handle == nullptr ||
        shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    return virtual_memories().take(descriptor_of(osHandle), *handle);
  });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  return in_session([&] {
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE
                      : virtual_memories().map(ptr, size, offset, handle);
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return in_session([&] { return virtual_memories().unmap(ptr, size); });
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size,
                                const CUmemAccessDesc* desc, size_t count) {
  return in_session(
      [&] { return virtual_memories().set_access(ptr, size, desc, count); });
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags,
                                const CUmemLocation* location,
                                CUdeviceptr ptr) {
  return in_session([&] {
    if (flags == nullptr || location == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return virtual_memories().access(ptr, *location, *flags);
  });
}

CUresult CUDAAPI cuMemGetAllocationGranularity(
    size_t* granularity, const CUmemAllocationProp* prop,
    CUmemAllocationGranularity_flags option) {
  return in_session([&] {
    if (granularity == nullptr || prop == nullptr ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
      return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        (prop->location.id < 0 || static_cast<std::size_t>(prop->location.id) >=
                                      process::the_session().devices().size()))
      return CUDA_ERROR_INVALID_DEVICE;
    *granularity = vgpu::granule_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  return in_session([&] {
    return prop == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : virtual_memories().properties(handle, *prop);
  });
}

CUresult CUDAAPI
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return in_session([&] {
    return handle == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : virtual_memories().retain(addr, *handle);
  });
}
