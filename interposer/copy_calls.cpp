// Entry points for copies and fills. Compiled twice: see flavour.hpp.
#include "interposer/flavour.hpp"

#include "interposer/copies.hpp"

using namespace vgpu::interposer;

namespace {

using side = transfer::side;

/// A host or device pointer as an address.
std::uint64_t address_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

/// As in_stream. Copies that wait are none to make beside a capture.
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

/// `async` calls take a stream; the others use the default one.
CUresult copy_flat(CUstream handle, bool async, std::uint64_t to, side to_side,
                   std::uint64_t from, side from_side,
                   std::size_t bytes) noexcept {
  return in_copying_stream(handle, async, [&](stream& s) {
    return transfer_bytes(s, {.to = flat(to),
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
    auto code = to_transfer({c->dstMemoryType, c->dstHost, c->dstDevice,
                             c->dstXInBytes, c->dstY, 0, c->dstPitch, 0},
                            {c->srcMemoryType, c->srcHost, c->srcDevice,
                             c->srcXInBytes, c->srcY, 0, c->srcPitch, 0},
                            {c->WidthInBytes, c->Height, 1}, what);
    return code != CUDA_SUCCESS ? code : transfer_bytes(s, what);
  });
}

template <class Copy>
CUresult copy_3d(CUstream handle, const Copy* c, bool async) noexcept {
  return in_copying_stream(handle, async, [&](stream& s) {
    if (c == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    transfer what{.async = async};
    auto code = to_transfer(*c, what);
    return code != CUDA_SUCCESS ? code : transfer_bytes(s, what);
  });
}

CUresult fill_flat(CUstream handle, CUdeviceptr to, std::uint32_t value,
                   std::uint32_t element, std::size_t count) noexcept {
  return in_stream(handle, [&](stream& s) {
    return fill_bytes(s, flat(to), value, element, {count, 1, 1});
  });
}

CUresult fill_2d(CUstream handle, CUdeviceptr to, std::size_t pitch,
                 std::uint32_t value, std::uint32_t element, std::size_t width,
                 std::size_t height) noexcept {
  return in_stream(handle, [&](stream& s) {
    return fill_bytes(s, {to, pitch, 0}, value, element, {width, height, 1});
  });
}

} // namespace

// -- flat
// ------------------------------------------------------------------------

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy_flat(nullptr, false, dst, side::unified, src, side::unified,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src,
                               size_t ByteCount, CUstream hStream) {
  return copy_flat(hStream, true, dst, side::unified, src, side::unified,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext, CUdeviceptr src,
                              CUcontext, size_t ByteCount) {
  return copy_flat(nullptr, false, dst, side::device, src, side::device,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext, CUdeviceptr src,
                                   CUcontext, size_t ByteCount,
                                   CUstream hStream) {
  return copy_flat(hStream, true, dst, side::device, src, side::device,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dst, const void* src,
                              size_t ByteCount) {
  return copy_flat(nullptr, false, dst, side::device, address_of(src),
                   side::host, ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src,
                                   size_t ByteCount, CUstream hStream) {
  return copy_flat(hStream, true, dst, side::device, address_of(src),
                   side::host, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoH(void* dst, CUdeviceptr src, size_t ByteCount) {
  return copy_flat(nullptr, false, address_of(dst), side::host, src,
                   side::device, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t ByteCount,
                                   CUstream hStream) {
  return copy_flat(hStream, true, address_of(dst), side::host, src,
                   side::device, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src,
                              size_t ByteCount) {
  return copy_flat(nullptr, false, dst, side::device, src, side::device,
                   ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src,
                                   size_t ByteCount, CUstream hStream) {
  return copy_flat(hStream, true, dst, side::device, src, side::device,
                   ByteCount);
}

// -- boxes
// -----------------------------------------------------------------------

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D* pCopy) {
  return copy_2d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* pCopy) {
  return copy_2d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return copy_2d(hStream, pCopy, true);
}
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D* pCopy) {
  return copy_3d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return copy_3d(hStream, pCopy, true);
}
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  return copy_3d(nullptr, pCopy, false);
}
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy,
                                     CUstream hStream) {
  return copy_3d(hStream, pCopy, true);
}

// -- fills
// -----------------------------------------------------------------------

CUresult CUDAAPI cuMemsetD8(CUdeviceptr dst, unsigned char uc, size_t N) {
  return fill_flat(nullptr, dst, uc, 1, N);
}
CUresult CUDAAPI cuMemsetD16(CUdeviceptr dst, unsigned short us, size_t N) {
  return fill_flat(nullptr, dst, us, 2, N);
}
CUresult CUDAAPI cuMemsetD32(CUdeviceptr dst, unsigned int ui, size_t N) {
  return fill_flat(nullptr, dst, ui, 4, N);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char uc, size_t N,
                                 CUstream hStream) {
  return fill_flat(hStream, dst, uc, 1, N);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dst, unsigned short us, size_t N,
                                  CUstream hStream) {
  return fill_flat(hStream, dst, us, 2, N);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned int ui, size_t N,
                                  CUstream hStream) {
  return fill_flat(hStream, dst, ui, 4, N);
}
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr dst, size_t pitch, unsigned char uc,
                              size_t Width, size_t Height) {
  return fill_2d(nullptr, dst, pitch, uc, 1, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr dst, size_t pitch, unsigned short us,
                               size_t Width, size_t Height) {
  return fill_2d(nullptr, dst, pitch, us, 2, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr dst, size_t pitch, unsigned int ui,
                               size_t Width, size_t Height) {
  return fill_2d(nullptr, dst, pitch, ui, 4, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch,
                                   unsigned char uc, size_t Width,
                                   size_t Height, CUstream hStream) {
  return fill_2d(hStream, dst, pitch, uc, 1, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch,
                                    unsigned short us, size_t Width,
                                    size_t Height, CUstream hStream) {
  return fill_2d(hStream, dst, pitch, us, 2, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch,
                                    unsigned int ui, size_t Width,
                                    size_t Height, CUstream hStream) {
  return fill_2d(hStream, dst, pitch, ui, 4, Width, Height);
}
