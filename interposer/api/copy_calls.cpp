// Entry points for copies and fills. Compiled twice: see flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/graph/captured_work.hpp"

using namespace vgpu::interposer;

namespace {

using side = transfer::side;

/// Converts a host or device pointer to an address.
std::uint64_t address_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

/// Runs a body as in_stream() does. Refuses copies that wait while a capture
/// forbids waiting.
template <class Body>
CUresult in_copying_stream(CUstream handle, bool async,
                           const Body& body) noexcept {
  return in_stream(handle, [&](stream& s) -> CUresult {
    if (!async && any_capture()) [[unlikely]]
      if (auto code = check_unsafe_call(); code != CUDA_SUCCESS)
        return code;
    return body(s);
  });
}

/// Copies bytes. Calls that are `async` take a stream; others use the default
/// stream.
CUresult copy_flat(CUstream handle, bool async, std::uint64_t to, side to_side,
                   std::uint64_t from, side from_side,
                   std::size_t bytes) noexcept {
  return in_copying_stream(handle, async, [&](stream& s) {
    return transfer_in_stream(s, {.to = flat(to),
                                  .from = flat(from),
                                  .size = {bytes, 1, 1},
                                  .async = async,
                                  .to_side = to_side,
                                  .from_side = from_side});
  });
}

CUresult copy_2d(CUstream handle, const CUDA_MEMCPY2D* c, bool async) noexcept {
  return in_copying_stream(handle, async, [&](stream& s) {
    if (c == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    transfer what{.async = async};
    auto code =
        to_transfer({c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray,
                     c->dstXInBytes, c->dstY, 0, c->dstPitch, 0},
                    {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray,
                     c->srcXInBytes, c->srcY, 0, c->srcPitch, 0},
                    {c->WidthInBytes, c->Height, 1}, what);
    return code != CUDA_SUCCESS ? code : transfer_in_stream(s, what);
  });
}

/// Describes one end of a copy of consecutive bytes.
struct flat_end {
  std::uint64_t address = 0; ///< 0 for an array
  side as = side::unified;
  CUarray array = nullptr;
  std::size_t offset = 0; ///< in the array
};

/// Copies bytes where at least one end is an array.
CUresult copy_array(CUstream handle, bool async, const flat_end& to,
                    const flat_end& from, std::size_t bytes) noexcept {
  return in_copying_stream(handle, async, [&](stream& s) -> CUresult {
    transfer what{.to = flat(to.address),
                  .from = flat(from.address),
                  .size = {bytes, 1, 1},
                  .async = async,
                  .to_side = to.as,
                  .from_side = from.as};
    if (to.as == side::array)
      if (auto code = to_rows(to.array, to.offset, bytes, what.to);
          code != CUDA_SUCCESS)
        return code;
    if (from.as == side::array)
      if (auto code = to_rows(from.array, from.offset, bytes, what.from);
          code != CUDA_SUCCESS)
        return code;
    return transfer_in_stream(s, what);
  });
}

flat_end in_array(CUarray x, std::size_t offset) noexcept {
  return {0, side::array, x, offset};
}
flat_end in_host(const void* x) noexcept {
  return {address_of(x), side::host, nullptr, 0};
}
flat_end on_device(CUdeviceptr x) noexcept {
  return {x, side::device, nullptr, 0};
}

template <class Copy>
CUresult copy_3d(CUstream handle, const Copy* c, bool async) noexcept {
  return in_copying_stream(handle, async, [&](stream& s) {
    if (c == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    transfer what{.async = async};
    auto code = to_transfer(*c, what);
    return code != CUDA_SUCCESS ? code : transfer_in_stream(s, what);
  });
}

CUresult fill_flat(CUstream handle, bool async, CUdeviceptr to,
                   std::uint32_t value, std::uint32_t element,
                   std::size_t count) noexcept {
  return in_stream(handle, [&](stream& s) {
    return fill_in_stream(s, flat(to), value, element, {count, 1, 1}, async);
  });
}

CUresult fill_2d(CUstream handle, bool async, CUdeviceptr to, std::size_t pitch,
                 std::uint32_t value, std::uint32_t element, std::size_t width,
                 std::size_t height) noexcept {
  return in_stream(handle, [&](stream& s) {
    return fill_in_stream(s, {to, pitch, 0}, value, element, {width, height, 1},
                          async);
  });
}

} // namespace

// -- flat
// ------------------------------------------------------------------------

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  call_arguments given{__func__, dst, src, ByteCount};
  return copy_flat(nullptr, false, dst, side::unified, src, side::unified,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src,
                               size_t ByteCount, CUstream hStream) {
  call_arguments given{__func__, dst, src, ByteCount, hStream};
  return copy_flat(hStream, true, dst, side::unified, src, side::unified,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext dstContext,
                              CUdeviceptr src, CUcontext srcContext,
                              size_t ByteCount) {
  call_arguments given{__func__, dst, dstContext, src, srcContext, ByteCount};
  return copy_flat(nullptr, false, dst, side::device, src, side::device,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dstContext,
                                   CUdeviceptr src, CUcontext srcContext,
                                   size_t ByteCount, CUstream hStream) {
  call_arguments given{__func__,   dst,       dstContext, src,
                       srcContext, ByteCount, hStream};
  return copy_flat(hStream, true, dst, side::device, src, side::device,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dst, const void* src,
                              size_t ByteCount) {
  call_arguments given{__func__, dst, src, ByteCount};
  return copy_flat(nullptr, false, dst, side::device, address_of(src),
                   side::host, ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src,
                                   size_t ByteCount, CUstream hStream) {
  call_arguments given{__func__, dst, src, ByteCount, hStream};
  return copy_flat(hStream, true, dst, side::device, address_of(src),
                   side::host, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoH(void* dst, CUdeviceptr src, size_t ByteCount) {
  call_arguments given{__func__, dst, src, ByteCount};
  return copy_flat(nullptr, false, address_of(dst), side::host, src,
                   side::device, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t ByteCount,
                                   CUstream hStream) {
  call_arguments given{__func__, dst, src, ByteCount, hStream};
  return copy_flat(hStream, true, address_of(dst), side::host, src,
                   side::device, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src,
                              size_t ByteCount) {
  call_arguments given{__func__, dst, src, ByteCount};
  return copy_flat(nullptr, false, dst, side::device, src, side::device,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src,
                                   size_t ByteCount, CUstream hStream) {
  call_arguments given{__func__, dst, src, ByteCount, hStream};
  return copy_flat(hStream, true, dst, side::device, src, side::device,
                   ByteCount);
}

// -- arrays, as bytes in a row
// ---------------------------------------------------

CUresult CUDAAPI cuMemcpyDtoA(CUarray dstArray, size_t dstOffset,
                              CUdeviceptr srcDevice, size_t ByteCount) {
  call_arguments given{__func__, dstArray, dstOffset, srcDevice, ByteCount};
  return copy_array(nullptr, false, in_array(dstArray, dstOffset),
                    on_device(srcDevice), ByteCount);
}
CUresult CUDAAPI cuMemcpyAtoD(CUdeviceptr dstDevice, CUarray srcArray,
                              size_t srcOffset, size_t ByteCount) {
  call_arguments given{__func__, dstDevice, srcArray, srcOffset, ByteCount};
  return copy_array(nullptr, false, on_device(dstDevice),
                    in_array(srcArray, srcOffset), ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoA(CUarray dstArray, size_t dstOffset,
                              const void* srcHost, size_t ByteCount) {
  call_arguments given{__func__, dstArray, dstOffset, srcHost, ByteCount};
  return copy_array(nullptr, false, in_array(dstArray, dstOffset),
                    in_host(srcHost), ByteCount);
}
CUresult CUDAAPI cuMemcpyAtoH(void* dstHost, CUarray srcArray, size_t srcOffset,
                              size_t ByteCount) {
  call_arguments given{__func__, dstHost, srcArray, srcOffset, ByteCount};
  return copy_array(nullptr, false, in_host(dstHost),
                    in_array(srcArray, srcOffset), ByteCount);
}
CUresult CUDAAPI cuMemcpyAtoA(CUarray dstArray, size_t dstOffset,
                              CUarray srcArray, size_t srcOffset,
                              size_t ByteCount) {
  call_arguments given{__func__, dstArray,  dstOffset,
                       srcArray, srcOffset, ByteCount};
  return copy_array(nullptr, false, in_array(dstArray, dstOffset),
                    in_array(srcArray, srcOffset), ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoAAsync(CUarray dstArray, size_t dstOffset,
                                   const void* srcHost, size_t ByteCount,
                                   CUstream hStream) {
  call_arguments given{__func__, dstArray,  dstOffset,
                       srcHost,  ByteCount, hStream};
  return copy_array(hStream, true, in_array(dstArray, dstOffset),
                    in_host(srcHost), ByteCount);
}
CUresult CUDAAPI cuMemcpyAtoHAsync(void* dstHost, CUarray srcArray,
                                   size_t srcOffset, size_t ByteCount,
                                   CUstream hStream) {
  call_arguments given{__func__,  dstHost,   srcArray,
                       srcOffset, ByteCount, hStream};
  return copy_array(hStream, true, in_host(dstHost),
                    in_array(srcArray, srcOffset), ByteCount);
}

// -- boxes
// -----------------------------------------------------------------------

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D* pCopy) {
  call_arguments given{__func__, pCopy};
  return copy_2d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* pCopy) {
  call_arguments given{__func__, pCopy};
  return copy_2d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  call_arguments given{__func__, pCopy, hStream};
  return copy_2d(hStream, pCopy, true);
}
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D* pCopy) {
  call_arguments given{__func__, pCopy};
  return copy_3d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  call_arguments given{__func__, pCopy, hStream};
  return copy_3d(hStream, pCopy, true);
}
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  call_arguments given{__func__, pCopy};
  return copy_3d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy,
                                     CUstream hStream) {
  call_arguments given{__func__, pCopy, hStream};
  return copy_3d(hStream, pCopy, true);
}

// -- fills
// -----------------------------------------------------------------------

CUresult CUDAAPI cuMemsetD8(CUdeviceptr dst, unsigned char uc, size_t N) {
  call_arguments given{__func__, dst, uc, N};
  return fill_flat(nullptr, false, dst, uc, 1, N);
}
CUresult CUDAAPI cuMemsetD16(CUdeviceptr dst, unsigned short us, size_t N) {
  call_arguments given{__func__, dst, us, N};
  return fill_flat(nullptr, false, dst, us, 2, N);
}
CUresult CUDAAPI cuMemsetD32(CUdeviceptr dst, unsigned int ui, size_t N) {
  call_arguments given{__func__, dst, ui, N};
  return fill_flat(nullptr, false, dst, ui, 4, N);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char uc, size_t N,
                                 CUstream hStream) {
  call_arguments given{__func__, dst, uc, N, hStream};
  return fill_flat(hStream, true, dst, uc, 1, N);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dst, unsigned short us, size_t N,
                                  CUstream hStream) {
  call_arguments given{__func__, dst, us, N, hStream};
  return fill_flat(hStream, true, dst, us, 2, N);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned int ui, size_t N,
                                  CUstream hStream) {
  call_arguments given{__func__, dst, ui, N, hStream};
  return fill_flat(hStream, true, dst, ui, 4, N);
}
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr dst, size_t pitch, unsigned char uc,
                              size_t Width, size_t Height) {
  call_arguments given{__func__, dst, pitch, uc, Width, Height};
  return fill_2d(nullptr, false, dst, pitch, uc, 1, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr dst, size_t pitch, unsigned short us,
                               size_t Width, size_t Height) {
  call_arguments given{__func__, dst, pitch, us, Width, Height};
  return fill_2d(nullptr, false, dst, pitch, us, 2, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr dst, size_t pitch, unsigned int ui,
                               size_t Width, size_t Height) {
  call_arguments given{__func__, dst, pitch, ui, Width, Height};
  return fill_2d(nullptr, false, dst, pitch, ui, 4, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch,
                                   unsigned char uc, size_t Width,
                                   size_t Height, CUstream hStream) {
  call_arguments given{__func__, dst, pitch, uc, Width, Height, hStream};
  return fill_2d(hStream, true, dst, pitch, uc, 1, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch,
                                    unsigned short us, size_t Width,
                                    size_t Height, CUstream hStream) {
  call_arguments given{__func__, dst, pitch, us, Width, Height, hStream};
  return fill_2d(hStream, true, dst, pitch, us, 2, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch,
                                    unsigned int ui, size_t Width,
                                    size_t Height, CUstream hStream) {
  call_arguments given{__func__, dst, pitch, ui, Width, Height, hStream};
  return fill_2d(hStream, true, dst, pitch, ui, 4, Width, Height);
}
