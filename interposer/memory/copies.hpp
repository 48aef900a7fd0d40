// Copies and fills, whatever their form: boxes between places.
#pragma once

#include "interposer/memory/memory.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <cstdint>

namespace vgpu::interposer {

/// Rows in somebody's memory: host or device addresses.
struct rows {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0; ///< bytes from row to row
  std::uint64_t slice = 0; ///< bytes from slice to slice
};

/// `bytes` in one piece.
constexpr rows flat(std::uint64_t address) noexcept {
  return {address, 0, 0};
}

/// One copy of the driver API, after its arguments were brought to one form.
struct transfer {
  rows to{};
  rows from{};
  call::extent size{}; ///< bytes, rows, slices
  /// Whether the call returns before the bytes are there, where it may.
  bool async = false;
  /// What a call's name promises; `unified` pointers are classified.
  /// An array's addresses are named by its handle alone.
  enum class side : std::uint8_t { unified, host, device, array };
  side to_side = side::unified;
  side from_side = side::unified;
};

/// One end of a copy struct.
struct box_end {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t x, y, z;
  std::size_t pitch, height;
};

/// Brings the ends of a copy struct to the one form, with what the driver
/// checks of them.
CUresult to_transfer(const box_end& to, const box_end& from,
                     const call::extent& size, transfer& out);

/// `bytes` of an array from `offset` on, row after row.
CUresult to_rows(CUarray handle, std::uint64_t offset, std::uint64_t bytes,
                 rows& out);

/// The same for CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, which differ in fields of
/// no use here: addresses tell the device.
template <class Copy>
CUresult to_transfer(const Copy& c, transfer& out) {
  if (c.srcLOD != 0 || c.dstLOD != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return to_transfer({c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray,
                      c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch, c.dstHeight},
                     {c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray,
                      c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight},
                     {c.WidthInBytes, c.Height, c.Depth}, out);
}

/// Tells whether a copy or fill of this size does nothing.
constexpr bool is_empty(const call::extent& x) noexcept {
  return x.width == 0 || x.height == 0 || x.depth == 0;
}

/// Gives what transfer_bytes() answers to addresses that are wrong, and does
/// nothing. In a captured stream, memory counts that the graph will have
/// allocated.
CUresult check_transfer(const stream& in, const transfer& what);

/// Checks the addresses and copies in stream order. CUDA_ERROR_INVALID_VALUE
/// for ranges that are not allocated. From pageable memory, and from pinned
/// memory, the bytes are taken before this returns; into pageable memory it
/// waits; into pinned memory only when it is not async. Precondition: the
/// stream is not captured (graph/captured_work.hpp).
CUresult transfer_bytes(stream& in, const transfer& what);

/// Gives what fill_bytes() answers to arguments that are wrong, and does
/// nothing. In a captured stream, memory counts that the graph will have
/// allocated.
CUresult check_fill(const stream& in, const rows& to,
                    std::uint32_t element_bytes, const call::extent& size);

/// Fills rows of `element_bytes` wide elements; `size` in elements. Managed
/// memory is filled when this returns, unless it is async. Precondition: the
/// stream is not captured (graph/captured_work.hpp).
CUresult fill_bytes(stream& in, const rows& to, std::uint32_t value,
                    std::uint32_t element_bytes, const call::extent& size,
                    bool async = true);

} // namespace vgpu::interposer
