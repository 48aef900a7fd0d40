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

/// `async` calls take a stream; the others use the default one.
CUresult copy_flat(CUstream handle, bool async, std::uint64_t to, side to_side,
                   std::uint64_t from, side from_side,
                   std::size_t bytes) noexcept {
  return in_stream(handle, [&](stream& s) {
    return transfer_bytes(s, {.to = flat(to),
                              .from = flat(from),
                              .size = {bytes, 1, 1},
                              .async = async,
                              .to_side = to_side,
                              .from_side = from_side});
  });
}

/// One end of a copy struct.
struct box_end {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x, y, z;
  std::size_t pitch, height;
};

CUresult resolve(const box_end& e, const vgpu::call::extent& size, rows& out,
                 side& which) {
  switch (e.type) {
  case CU_MEMORYTYPE_HOST:
    out.address = address_of(e.host);
    which = side::host;
    break;
  case CU_MEMORYTYPE_DEVICE:
    out.address = e.device;
    which = side::device;
    break;
  case CU_MEMORYTYPE_UNIFIED:
    out.address = e.device;
    which = side::unified;
    break;
  case CU_MEMORYTYPE_ARRAY:
    return CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  out.pitch = e.pitch != 0 ? e.pitch : size.width + e.x;
  auto height = e.height != 0 ? e.height : size.height + e.y;
  if (out.pitch < size.width + e.x || height < size.height + e.y ||
      out.pitch > vgpu::window_bytes || height > vgpu::window_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  out.slice = out.pitch * height;
  out.address += e.x + e.y * out.pitch + e.z * out.slice;
  return CUDA_SUCCESS;
}

CUresult copy_box(stream& s, const box_end& to, const box_end& from,
                  const vgpu::call::extent& size, bool async) {
  transfer what{.size = size, .async = async};
  if (size.width > vgpu::window_bytes || size.height > vgpu::window_bytes ||
      size.depth > vgpu::window_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (auto code = resolve(to, size, what.to, what.to_side);
      code != CUDA_SUCCESS)
    return code;
  if (auto code = resolve(from, size, what.from, what.from_side);
      code != CUDA_SUCCESS)
    return code;
  return transfer_bytes(s, what);
}

CUresult copy_2d(CUstream handle, const CUDA_MEMCPY2D* c, bool async) noexcept {
  return in_stream(handle, [&](stream& s) {
    if (c == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return copy_box(s,
                    {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
                     c->dstY, 0, c->dstPitch, 0},
                    {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes,
                     c->srcY, 0, c->srcPitch, 0},
                    {c->WidthInBytes, c->Height, 1}, async);
  });
}

/// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, which differ in fields of no use here:
/// addresses tell the device.
template <class Copy>
CUresult copy_3d(CUstream handle, const Copy* c, bool async) noexcept {
  return in_stream(handle, [&](stream& s) {
    if (c == nullptr || c->srcLOD != 0 || c->dstLOD != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return copy_box(s,
                    {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
                     c->dstY, c->dstZ, c->dstPitch, c->dstHeight},
                    {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes,
                     c->srcY, c->srcZ, c->srcPitch, c->srcHeight},
                    {c->WidthInBytes, c->Height, c->Depth}, async);
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
