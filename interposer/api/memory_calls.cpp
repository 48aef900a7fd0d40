// Entry points for device and host memory.
#include "interposer/api/waiting.hpp"

#include "interposer/memory/late_copies.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/host_call.hpp"

#include <algorithm>

using namespace vgpu::interposer;

namespace {

constexpr std::uint64_t pitch_step = 512;
constexpr unsigned host_alloc_flags = CU_MEMHOSTALLOC_PORTABLE |
                                      CU_MEMHOSTALLOC_DEVICEMAP |
                                      CU_MEMHOSTALLOC_WRITECOMBINED;

CUresult alloc_host(void** out, std::size_t bytes, unsigned flags) noexcept {
  return in_waiting_context([&](context& x) {
    if (out == nullptr || (flags & ~host_alloc_flags) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return allocate_pinned(x, bytes, flags, *out);
  });
}

bool is_allocated_by_cuda(const void* at) noexcept {
  return locate(reinterpret_cast<std::uintptr_t>(at)).where != place::pageable;
}

CUresult register_host(void* at, std::size_t bytes, unsigned flags) noexcept {
  return in_context([&](context& x) {
    constexpr unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
        CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if ((flags & ~known) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    // A kernel on another host could not reach it.
    if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
      return CUDA_ERROR_NOT_SUPPORTED;
    if (is_allocated_by_cuda(at))
      return CUDA_ERROR_INVALID_VALUE;
    auto code = registered().add(x, at, bytes, flags);
    if (code == CUDA_SUCCESS)
      late_copies().prepare(x);
    return code;
  });
}

} // namespace

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  return in_context([&](context& x) {
    auto& space = process::the_session().space(x.device_index());
    virtual_memories().collect();
    sharing().recount(x.device_index(), space.quota());
    auto quota = space.quota();
    // The quota may have been lowered below the allocated bytes.
    auto left = quota - std::min(quota, space.used());
    if (free != nullptr)
      *free = left - left % vgpu::granule_bytes; // what can be allocated
    if (total != nullptr)
      *total = quota;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* dptr, size_t bytesize) {
  call_arguments given{__func__, dptr, bytesize};
  return in_waiting_context([&](context& x) {
    if (dptr == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return allocate(x, bytesize, memory_kind::device, 0, *dptr);
  });
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr* dptr, size_t* pPitch,
                                 size_t WidthInBytes, size_t Height,
                                 unsigned int ElementSizeBytes) {
  call_arguments given{__func__,     dptr,   pPitch,
                       WidthInBytes, Height, ElementSizeBytes};
  return in_waiting_context([&](context& x) {
    if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 ||
        Height == 0 || WidthInBytes > vgpu::window_bytes ||
        Height > vgpu::window_bytes ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 &&
         ElementSizeBytes != 16))
      return CUDA_ERROR_INVALID_VALUE;
    auto pitch = (WidthInBytes + pitch_step - 1) / pitch_step * pitch_step;
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
    auto code = allocate(x, bytes, memory_kind::device, 0, *dptr);
    if (code == CUDA_SUCCESS)
      *pPitch = pitch;
    return code;
  });
}

CUresult CUDAAPI cuMemFree(CUdeviceptr dptr) {
  call_arguments given{__func__, dptr};
  return waiting_by_handle([&] {
    if (dptr == 0)
      return CUDA_SUCCESS;
    auto* x = selected_context();
    if (x != nullptr && !x->active.load())
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return process::the_session().is_pinned(dptr) ? free_pooled_host(dptr)
                                                  : free_device(dptr);
  });
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* pbase, size_t* psize,
                                      CUdeviceptr dptr) {
  return in_context([&](context&) {
    auto found = locate(dptr);
    if (!found.in)
      return CUDA_ERROR_NOT_FOUND;
    if (pbase != nullptr)
      *pbase = found.in->address;
    if (psize != nullptr)
      *psize = found.in->bytes;
    return CUDA_SUCCESS;
  });
}

// -- host memory
// -----------------------------------------------------------------

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize,
                                unsigned int Flags) {
  call_arguments given{__func__, pp, bytesize, Flags};
  return alloc_host(pp, bytesize, Flags);
}

CUresult CUDAAPI cuMemAllocHost(void** pp, size_t bytesize) {
  call_arguments given{__func__, pp, bytesize};
  return alloc_host(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  call_arguments given{__func__, p};
  return waiting_by_handle(
      [&] { return p == nullptr ? CUDA_SUCCESS : free_pinned(p); });
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* pdptr, void* p,
                                           unsigned int Flags) {
  return in_context([&](context& x) {
    auto address = reinterpret_cast<std::uintptr_t>(p);
    if (pdptr == nullptr || Flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto found = locate(address);
    if (found.where != place::pinned || !found.in)
      return registered().device_pointer(x, p, *pdptr);
    zero_copy().note(address);
    *pdptr = address;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  return in_context([&](context&) {
    auto found = locate(reinterpret_cast<std::uintptr_t>(p));
    if (pFlags == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (found.where == place::pinned && found.in) {
      // Where addresses are unified, pinned memory is always mapped.
      *pFlags = found.in->flags | CU_MEMHOSTALLOC_DEVICEMAP;
      return CUDA_SUCCESS;
    }
    auto range = registered().find(p);
    if (!range)
      return CUDA_ERROR_INVALID_VALUE;
    *pFlags = range->flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize,
                                   unsigned int Flags) {
  return register_host(p, bytesize, Flags);
}

extern "C" CUresult mem_host_register_v1(void* p, size_t bytesize,
                                         unsigned int flags)
    VGPU_EXPORT_AS("cuMemHostRegister");
CUresult mem_host_register_v1(void* p, size_t bytesize, unsigned int flags) {
  return register_host(p, bytesize, flags);
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  return by_handle([&] {
    if (p == nullptr || is_allocated_by_cuda(p))
      return CUDA_ERROR_INVALID_VALUE;
    if (auto range = registered().beginning_at(p); range)
      host_calls().end_waits_in(reinterpret_cast<std::uintptr_t>(p),
                                range->bytes);
    return registered().remove(p);
  });
}
