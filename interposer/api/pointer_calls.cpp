// Entry points by which the program queries a pointer.
#include "interposer/api/entry.hpp"

#include "interposer/memory/memory.hpp"
#include "interposer/memory/pool.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/session/session.hpp"

#include <cstdint>
#include <cstring>

using namespace vgpu::interposer;

namespace {

template <class T>
CUresult give(void* data, T value) {
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

/// Returns the context with this id. Where there is none, as for memory that
/// the program maps by itself, returns the device's primary context.
CUcontext context_of(std::uint64_t id, std::uint8_t device) {
  auto* x = id == 0 ? nullptr : contexts().with_id(id);
  return (x == nullptr ? contexts().primary(device) : *x).handle;
}

/// Returns the context of an allocation. Memory that streams allocate belongs
/// to none (CUDA programming guide, "Stream Ordered Memory Allocator").
CUcontext context_of(const located& x) {
  if (x.in->kind == memory_kind::pooled || x.in->kind == memory_kind::graph)
    return nullptr;
  return context_of(x.in->context,
                    x.where == place::device ? x.device : x.in->device);
}

/// Returns how the calling thread's device may use the memory.
int access_flags(const allocation& x) {
  constexpr auto none = static_cast<int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE),
                 read = static_cast<int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ),
                 both = static_cast<int>(
                     CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  if (x.kind != memory_kind::mapped)
    return both;
  auto* current = current_context();
  CUmemLocation by{};
  by.type = CU_MEM_LOCATION_TYPE_DEVICE;
  by.id = current == nullptr ? 0 : current->device;
  unsigned long long allowed = 0;
  if (virtual_memories().access(x.address, by, allowed) != CUDA_SUCCESS)
    return none;
  return allowed == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? both
         : allowed == CU_MEM_ACCESS_FLAGS_PROT_READ    ? read
                                                       : none;
}

/// Returns the ways in which the memory may be exported.
unsigned handle_types(const allocation& x) {
  if (x.kind == memory_kind::mapped)
    return virtual_memories().handle_types(x.address);
  auto* from = pools().find(x.pool);
  return from != nullptr && from->key != 0
             ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             : CU_MEM_HANDLE_TYPE_NONE;
}

CUresult allocated(CUpointer_attribute which, const located& x, CUdeviceptr ptr,
                   void* data) {
  auto on_device = x.where == place::device;
  switch (which) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return give(data, context_of(x));
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return give(data, static_cast<unsigned>(on_device ? CU_MEMORYTYPE_DEVICE
                                                      : CU_MEMORYTYPE_HOST));
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return give(data, ptr);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    return on_device && !x.in->managed ? CUDA_ERROR_INVALID_VALUE
                                       : give(data, ptr);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    return give(data, static_cast<unsigned long long>(x.in->serial));
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return give(data, static_cast<int>(on_device ? x.device : x.in->device));
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    return give(data, x.in->address);
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    return give(data, static_cast<std::size_t>(x.in->bytes));
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return give(data, 1U);
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return give(data, x.in->managed ? 1U : 0U);
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    return give(data, x.in->kind == memory_kind::device ? 1U : 0U);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    return give(data, synchronous().holds(ptr) ? 1U : 0U);
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    return give(data, 0U);
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    // No driver of another device can use a token of a vGPU.
    return on_device ? give(data, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{})
                     : CUDA_ERROR_INVALID_VALUE;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return give(data, std::uint64_t{handle_types(*x.in)});
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return give(data, access_flags(*x.in));
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return give(data, to_handle<CUmemoryPool>(x.in->pool));
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    return give(data, static_cast<std::size_t>(x.in->bytes));
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    return give(data, x.in->address);
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    return give(data, static_cast<unsigned long long>(x.in->serial));
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Tells the address by which kernels use registered memory. Fails where they
/// cannot use it.
CUresult give_device_pointer(const registered_memory::range& x, CUdeviceptr ptr,
                             void* data) {
  auto* in = contexts().with_id(x.context);
  CUdeviceptr out = 0;
  if (in == nullptr || process::session_error() != CUDA_SUCCESS ||
      registered().device_pointer(*in, reinterpret_cast<const void*>(ptr),
                                  out) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  return give(data, out);
}

CUresult registered_range(CUpointer_attribute which,
                          const registered_memory::range& x, CUdeviceptr ptr,
                          void* data) {
  switch (which) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return give(data, context_of(x.context, x.device));
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return give(data, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return give_device_pointer(x, ptr, data);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    return give(data, ptr);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    return give(data, synchronous().holds(ptr) ? 1U : 0U);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    return give(data, static_cast<unsigned long long>(x.serial));
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    return give(data, 0U);
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return give(data, static_cast<int>(x.device));
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    return give(data, static_cast<CUdeviceptr>(x.begin));
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    return give(data, static_cast<std::size_t>(x.bytes));
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return give(data, 1U);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return give(data, std::uint64_t{CU_MEM_HANDLE_TYPE_NONE});
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return give(data, static_cast<int>(
                          (x.flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0
                              ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                              : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return give(data, CUmemoryPool{nullptr});
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult get(CUpointer_attribute which, CUdeviceptr ptr, void* data) {
  auto found = locate(ptr);
  if (found.in)
    return allocated(which, found, ptr, data);
  if (auto range = registered().find(reinterpret_cast<const void*>(ptr)); range)
    return registered_range(which, *range, ptr, data);
  return CUDA_ERROR_INVALID_VALUE;
}

/// Writes the value that cuPointerGetAttributes returns for memory that CUDA
/// does not know.
void give_nothing(CUpointer_attribute which, void* data) {
  switch (which) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    give(data, 0U);
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    give(data, -2);
    break;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_MAPPED:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    give(data, 0U);
    break;
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    break;
  default:
    give(data, std::uint64_t{0});
    break;
  }
}

} // namespace

CUresult CUDAAPI cuPointerGetAttribute(void* data,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr ptr) {
  return guarded([&] {
    return data == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : get(attribute, ptr, data);
  });
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes,
                                        CUpointer_attribute* attributes,
                                        void** data, CUdeviceptr ptr) {
  return guarded([&] {
    if (attributes == nullptr || data == nullptr || numAttributes == 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; ++i) {
      if (data[i] == nullptr || attributes[i] <= 0 ||
          attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
        return CUDA_ERROR_INVALID_VALUE;
      if (get(attributes[i], ptr, data[i]) != CUDA_SUCCESS)
        give_nothing(attributes[i], data[i]);
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr ptr) {
  return in_context([&](context& x) -> CUresult {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return CUDA_ERROR_INVALID_VALUE;
    unsigned on = 0;
    std::memcpy(&on, value, sizeof(on));
    auto device = x.device_index();
    if (auto found = locate(ptr); found.in) {
      synchronous().set(found.in->address, found.in->bytes, on != 0);
      if (found.where == place::device)
        device = found.device;
    } else if (auto range =
                   registered().find(reinterpret_cast<const void*>(ptr));
               range) {
      synchronous().set(range->begin, range->bytes, on != 0);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // The call waits for copies and fills that are under way.
    return on == 0 ? CUDA_SUCCESS : here().synchronise(device);
  });
}
