// Entry points for several copies in one call. Compiled twice: see flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/memory/copy_batch.hpp"

using namespace vgpu::interposer;

namespace {

/// Makes the copies that `describe_it` lists. The legacy stream takes no
/// batches. A captured stream takes none either, but stays captured.
template <class Describe>
CUresult copy_batch(CUstream handle, std::size_t* failed,
                    const Describe& describe_it) noexcept {
  // As in driver 580, this check comes first.
  if (handle == nullptr && !per_thread)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  batch_fault wrong{CUDA_ERROR_INVALID_VALUE};
  auto code = in_stream(handle, [&](stream& s) -> CUresult {
    std::vector<transfer> copies;
    if (handle != CU_STREAM_LEGACY)
      wrong = describe_it(copies);
    if (wrong.code == CUDA_SUCCESS)
      wrong = s.is_captured()
                  ? batch_fault{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}
                  : transfer_all(s, copies);
    return wrong.code;
  });
  if (failed != nullptr)
    *failed = wrong.copy;
  return code;
}

CUresult copy_flat_batch(const flat_batch& what, std::size_t* failed,
                         CUstream handle) noexcept {
  return copy_batch(handle, failed,
                    [&](auto& copies) { return describe(what, copies); });
}

CUresult copy_3d_batch(const CUDA_MEMCPY3D_BATCH_OP* what, std::size_t count,
                       unsigned long long flags, std::size_t* failed,
                       CUstream handle) noexcept {
  return copy_batch(handle, failed, [&](auto& copies) {
    return what == nullptr || count == 0 || flags != 0
               ? batch_fault{CUDA_ERROR_INVALID_VALUE}
               : describe(std::span{what, count}, copies);
  });
}

} // namespace

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs,
                                    size_t* sizes, size_t count,
                                    CUmemcpyAttributes* attrs,
                                    size_t* attrsIdxs, size_t numAttrs,
                                    CUstream hStream) {
  return copy_flat_batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs},
                         nullptr, hStream);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t numOps,
                                      CUDA_MEMCPY3D_BATCH_OP* opList,
                                      unsigned long long flags,
                                      CUstream hStream) {
  return copy_3d_batch(opList, numOps, flags, nullptr, hStream);
}

// These are the forms of CUDA 12.8.
extern "C" {
CUresult VGPU_FLAVOURED(memcpy_batch_v1)(CUdeviceptr* to, CUdeviceptr* from,
                                         size_t* sizes, size_t count,
                                         CUmemcpyAttributes* attributes,
                                         size_t* first, size_t attribute_count,
                                         size_t* failed, CUstream in)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuMemcpyBatchAsync"));
CUresult VGPU_FLAVOURED(memcpy_3d_batch_v1)(size_t count,
                                            CUDA_MEMCPY3D_BATCH_OP* what,
                                            size_t* failed,
                                            unsigned long long flags,
                                            CUstream in)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuMemcpy3DBatchAsync"));
}
CUresult VGPU_FLAVOURED(memcpy_batch_v1)(CUdeviceptr* to, CUdeviceptr* from,
                                         size_t* sizes, size_t count,
                                         CUmemcpyAttributes* attributes,
                                         size_t* first, size_t attribute_count,
                                         size_t* failed, CUstream in) {
  return copy_flat_batch(
      {to, from, sizes, count, attributes, first, attribute_count}, failed, in);
}
CUresult VGPU_FLAVOURED(memcpy_3d_batch_v1)(size_t count,
                                            CUDA_MEMCPY3D_BATCH_OP* what,
                                            size_t* failed,
                                            unsigned long long flags,
                                            CUstream in) {
  return copy_3d_batch(what, count, flags, failed, in);
}
