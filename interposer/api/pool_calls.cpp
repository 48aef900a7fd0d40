// Entry points for memory pools that take no stream.
#include "interposer/api/waiting.hpp"

#include "interposer/memory/managed_place.hpp"
#include "interposer/memory/pool.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/session/session.hpp"

using namespace vgpu::interposer;

namespace {

bool is_device(CUdevice dev) {
  return dev >= 0 && static_cast<std::size_t>(dev) <
                         process::the_session().devices().size();
}

template <class Body>
CUresult with_device_pool(CUdevice dev, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    return is_device(dev) ? body() : CUDA_ERROR_INVALID_DEVICE;
  });
}

template <class Body>
CUresult with_pool(CUmemoryPool handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = pools().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

bool is_host(const CUmemLocation& x) {
  return x.type == CU_MEM_LOCATION_TYPE_HOST ||
         x.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/// Returns the current context's device, or the first one.
CUdevice calling_device() {
  auto* current = current_context();
  return current == nullptr ? 0 : current->device;
}

/// Checks a place of pools on the host, which the current device announces.
CUresult check_host(const CUmemLocation& x) {
  auto any = x.type == CU_MEM_LOCATION_TYPE_HOST;
  auto announced = any ? CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
                       : CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED;
  const auto& device =
      process::the_session()
          .devices()[static_cast<std::size_t>(calling_device())];
  if (device.value_of(announced) == 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return any || is_numa_node(x.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Checks where a pool is to be, and with which ways of sharing.
CUresult check_pool_place(const CUmemLocation* where, CUmemAllocationType type,
                          unsigned shared_by = CU_MEM_HANDLE_TYPE_NONE) {
  if (where == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  return is_host(*where) && shared_by == CU_MEM_HANDLE_TYPE_NONE
             ? check_host(*where)
             : check_place_of_pinned(*where, shared_by);
}

/// Tells whether a device's pools can be exported in this way.
bool may_be_exported(int device, CUmemAllocationHandleType as) {
  auto types =
      process::the_session()
          .devices()[static_cast<std::size_t>(device)]
          .value_of(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  return as == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && (types & as) != 0;
}

CUmemoryPool handle_of(const pool& x) {
  return to_handle<CUmemoryPool>(x.handle);
}

} // namespace

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out,
                                           CUdevice dev) {
  return with_device_pool(dev, [&] {
    if (pool_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pool_out = handle_of(default_pool(dev));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return with_device_pool(dev, [&] {
    if (pool_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pool_out = handle_of(current_pool(dev));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
  return with_device_pool(dev, [&] {
    auto* x = pools().find(handle);
    if (x == nullptr || x->device != dev || x->on_host() || x->imported)
      return CUDA_ERROR_INVALID_VALUE;
    set_current_pool(dev, *x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool* pool_out,
                                        CUmemLocation* location,
                                        CUmemAllocationType type) {
  return guarded([&] {
    if (auto code = check_pool_place(location, type); code != CUDA_SUCCESS)
      return code;
    if (!is_host(*location))
      return cuDeviceGetDefaultMemPool(pool_out, location->id);
    if (pool_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pool_out = handle_of(default_pool(*location, calling_device()));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool* pool_out,
                                 CUmemLocation* location,
                                 CUmemAllocationType type) {
  return guarded([&] {
    if (auto code = check_pool_place(location, type); code != CUDA_SUCCESS)
      return code;
    if (!is_host(*location))
      return cuDeviceGetMemPool(pool_out, location->id);
    if (pool_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pool_out = handle_of(current_pool(*location, calling_device()));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location,
                                 CUmemAllocationType type,
                                 CUmemoryPool handle) {
  return guarded([&] {
    if (auto code = check_pool_place(location, type); code != CUDA_SUCCESS)
      return code;
    if (!is_host(*location))
      return cuDeviceSetMemPool(location->id, handle);
    auto* x = pools().find(handle);
    if (x == nullptr || x->where.type != location->type ||
        (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
         x->where.id != location->id))
      return CUDA_ERROR_INVALID_VALUE;
    set_current_pool(*location, *x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool_out,
                                 const CUmemPoolProps* poolProps) {
  return guarded([&] {
    if (pool_out == nullptr || poolProps == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    const auto& where = poolProps->location;
    if (auto code = check_pool_place(&where, poolProps->allocType,
                                     poolProps->handleTypes);
        code != CUDA_SUCCESS)
      return code;
    auto dev = is_host(where) ? calling_device() : where.id;
    auto shared = poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
    if (shared && !may_be_exported(dev, poolProps->handleTypes))
      return CUDA_ERROR_NOT_SUPPORTED;
    auto made = is_host(where)
                    ? std::make_unique<pool>(where, dev, poolProps->maxSize)
                    : std::make_unique<pool>(dev, poolProps->maxSize);
    auto* x = made.get();
    if (shared)
      x->key = random_serial();
    x->handle = pools().add(std::move(made));
    *pool_out = handle_of(*x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
  return with_pool(handle, [&](pool& x) {
    if (x.is_default)
      return CUDA_ERROR_INVALID_VALUE;
    destroy_pool(x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep) {
  return with_pool(handle, [&](pool& x) {
    x.trim(minBytesToKeep);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle,
                                       CUmemPool_attribute attr, void* value) {
  return with_pool(handle, [&](pool& x) {
    if (value == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto* number = static_cast<int*>(value);
    auto* bytes = static_cast<cuuint64_t*>(value);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      *number = x.reuse_follow_events;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      *number = x.reuse_opportunistic;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *number = x.reuse_dependencies;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *bytes = x.threshold();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *bytes = x.book().reserved();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *bytes = x.book().reserved_high();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *bytes = x.book().used();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *bytes = x.book().used_high();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle,
                                       CUmemPool_attribute attr, void* value) {
  return with_pool(handle, [&](pool& x) {
    if (value == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto number = *static_cast<const int*>(value);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      x.reuse_follow_events = number;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      x.reuse_opportunistic = number;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      x.reuse_dependencies = number;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      x.set_threshold(*static_cast<const cuuint64_t*>(value));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<const cuuint64_t*>(value) != 0)
        return CUDA_ERROR_INVALID_VALUE;
      x.change([&](pool_book& book) {
        if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
          book.reset_used_high();
        else
          book.reset_reserved_high();
      });
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

namespace {

/// Tells whether the place always has access to the pool: a device to its own,
/// the host to the host's.
bool is_owner(const pool& x, const CUmemLocation& by) {
  return x.on_host()
             ? is_host(by)
             : by.type == CU_MEM_LOCATION_TYPE_DEVICE && by.id == x.device;
}

/// Tells whether a place may get this access. No place loses its own pool's,
/// and no other device gets a device's.
bool may_have(const pool& x, const CUmemAccessDesc& wanted) {
  if (is_owner(x, wanted.location))
    return wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return x.on_host() && wanted.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         is_device(wanted.location.id) &&
         (wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
          wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

} // namespace

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool handle,
                                    const CUmemAccessDesc* map, size_t count) {
  return with_pool(handle, [&](pool& x) {
    if (map == nullptr && count != 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i)
      if (!may_have(x, map[i]))
        return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i)
      if (!is_owner(x, map[i].location))
        x.allow(map[i].location.id, map[i].flags);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags,
                                    CUmemoryPool handle,
                                    CUmemLocation* location) {
  return with_pool(handle, [&](pool& x) {
    if (flags == nullptr || location == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = is_owner(x, *location) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : x.on_host() && location->type == CU_MEM_LOCATION_TYPE_DEVICE
                 ? x.access(location->id)
                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

// -- of several processes
// ---------------------------------------------------------

CUresult CUDAAPI cuMemPoolExportToShareableHandle(
    void* handle_out, CUmemoryPool handle, CUmemAllocationHandleType handleType,
    unsigned long long flags) {
  return with_pool(handle, [&](pool& x) {
    if (handle_out == nullptr || flags != 0 ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    return export_pool(x, *static_cast<int*>(handle_out));
  });
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(
    CUmemoryPool* pool_out, void* handle, CUmemAllocationHandleType handleType,
    unsigned long long flags) {
  return by_handle([&] {
    if (pool_out == nullptr || flags != 0 ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    return import_pool(descriptor_of(handle), *pool_out);
  });
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out,
                                        CUdeviceptr ptr) {
  return waiting_by_handle([&] {
    return shareData_out == nullptr ? CUDA_ERROR_INVALID_VALUE
                                    : sharing().handle_of(ptr, *shareData_out);
  });
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* ptr_out,
                                        CUmemoryPool handle,
                                        CUmemPoolPtrExportData* shareData) {
  return in_waiting_context([&](context& in) {
    auto* by = pools().find(handle);
    if (ptr_out == nullptr || shareData == nullptr || by == nullptr ||
        !by->imported)
      return CUDA_ERROR_INVALID_VALUE;
    return sharing().open(*by, in.id.load(), *shareData, *ptr_out);
  });
}
