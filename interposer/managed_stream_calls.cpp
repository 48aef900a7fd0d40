// Entry points for managed memory that take a stream. Compiled twice: see
// flavour.hpp.
#include "interposer/flavour.hpp"

#include "interposer/managed.hpp"
#include "interposer/managed_place.hpp"
#include "interposer/memory.hpp"

using namespace vgpu::interposer;

namespace {

/// Brought to the device it is there before the work that follows. Brought to
/// the host it is when it is touched, which is not before the stream is waited
/// for.
CUresult prefetch(CUdeviceptr at, std::size_t bytes, advice::location where,
                  CUstream handle) noexcept {
  return in_stream(handle, [&](stream& s) -> CUresult {
    if (bytes == 0 || !is_managed(at, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = check_place(where); code != CUDA_SUCCESS)
      return code;
    if (s.is_captured())
      return refuse_in_capture(s);
    given_advice().apply(at, bytes, [&](advice& x) { x.prefetched = where; });
    if (where.first == CU_MEM_LOCATION_TYPE_DEVICE &&
        managed_memory::host_has_some())
      managed().hand_over(at, bytes);
    return CUDA_SUCCESS;
  });
}

} // namespace

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count,
                                    CUmemLocation location, unsigned int flags,
                                    CUstream hStream) {
  if (flags != 0)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  return prefetch(devPtr, count, {location.type, location.id}, hStream);
}

extern "C" CUresult VGPU_FLAVOURED(mem_prefetch_v1)(CUdeviceptr at,
                                                    size_t bytes,
                                                    CUdevice where, CUstream in)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuMemPrefetchAsync"));
CUresult VGPU_FLAVOURED(mem_prefetch_v1)(CUdeviceptr at, size_t bytes,
                                         CUdevice where, CUstream in) {
  return prefetch(at, bytes, place_of(where), in);
}

/// Attaching says who will leave the memory alone meanwhile. All of it may be
/// touched by both at any time here.
CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr,
                                        size_t length, unsigned int flags) {
  return in_stream(hStream, [&](stream& s) -> CUresult {
    auto found = locate(dptr);
    if (!found.in || !found.in->managed ||
        (length != 0 &&
         (found.in->address != dptr || found.in->bytes != length)))
      return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        (flags != CU_MEM_ATTACH_SINGLE || s.is_legacy()))
      return CUDA_ERROR_INVALID_VALUE;
    return s.is_captured() ? refuse_in_capture(s) : CUDA_SUCCESS;
  });
}
