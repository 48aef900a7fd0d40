// Entry points for managed memory that take a stream. Compiled twice: see
// flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/memory/copy_batch.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/managed_place.hpp"
#include "interposer/memory/memory.hpp"

using namespace vgpu::interposer;

namespace {

/// Prefetches managed memory. To a device it moves before the work that
/// follows; to the host it moves only when the program touches it.
void bring(CUdeviceptr at, std::size_t bytes, advice::location where) {
  given_advice().apply(at, bytes, [&](advice& x) { x.prefetched = where; });
  if (where.first == CU_MEM_LOCATION_TYPE_DEVICE &&
      managed_memory::host_has_some())
    managed().hand_over(at, bytes);
}

CUresult prefetch(CUdeviceptr at, std::size_t bytes, advice::location where,
                  CUstream handle) noexcept {
  return in_stream(handle, [&](stream& s) -> CUresult {
    if (bytes == 0 || !is_managed(at, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = check_place(where); code != CUDA_SUCCESS)
      return code;
    if (s.is_captured())
      return refuse_in_capture(s);
    bring(at, bytes, where);
    return CUDA_SUCCESS;
  });
}

/// Holds a batch of ranges of managed memory, and their targets.
struct range_batch {
  const CUdeviceptr* at;
  const std::size_t* sizes;
  std::size_t count;
  const CUmemLocation* places;
  /// Holds, for each place, the index of the first range that it applies to.
  const std::size_t* first;
  std::size_t place_count;
};

advice::location place_in(const range_batch& x, std::size_t group) {
  return {x.places[group].type, x.places[group].id};
}

CUresult check_ranges(const range_batch& x, unsigned long long flags) {
  if (x.at == nullptr || x.sizes == nullptr || x.count == 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < x.count; ++i)
    if (x.sizes[i] == 0 || !is_managed(x.at[i], x.sizes[i]))
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult check_places(const range_batch& x) {
  if (x.places == nullptr || !divides(x.first, x.place_count, x.count))
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t group = 0; group < x.place_count; ++group)
    if (check_place(place_in(x, group)) != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/// Runs a batch after checking all of it. The legacy stream takes no batches.
template <class Check>
CUresult in_batch_stream(CUstream handle, const Check& check) noexcept {
  return in_stream(handle, [&](stream& s) -> CUresult {
    if (handle == CU_STREAM_LEGACY || (handle == nullptr && !per_thread))
      return CUDA_ERROR_INVALID_VALUE;
    auto code = check();
    return code == CUDA_SUCCESS && s.is_captured() ? refuse_in_capture(s)
                                                   : code;
  });
}

CUresult prefetch(const range_batch& x, unsigned long long flags,
                  CUstream handle) noexcept {
  return in_batch_stream(handle, [&] {
    auto code = check_ranges(x, flags);
    if (code == CUDA_SUCCESS)
      code = check_places(x);
    if (code != CUDA_SUCCESS)
      return code;
    for (std::size_t i = 0, group = 0; i < x.count; ++i) {
      while (group + 1 < x.place_count && x.first[group + 1] <= i)
        ++group;
      bring(x.at[i], x.sizes[i], place_in(x, group));
    }
    return code;
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

CUresult CUDAAPI cuMemPrefetchBatchAsync(
    CUdeviceptr* dptrs, size_t* sizes, size_t count,
    CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
    size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  return prefetch(
      {dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs},
      flags, hStream);
}

/// Discards nothing: discarded memory may hold any bytes until it is written,
/// also its old ones.
CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes,
                                        size_t count, unsigned long long flags,
                                        CUstream hStream) {
  return in_batch_stream(hStream, [&] {
    return check_ranges({dptrs, sizes, count, nullptr, nullptr, 0}, flags);
  });
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(
    CUdeviceptr* dptrs, size_t* sizes, size_t count,
    CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
    size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  return prefetch(
      {dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs},
      flags, hStream);
}

/// Does nothing but its checks. In CUDA, attaching restricts who may touch the
/// memory; here program and device may always touch all of it.
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
