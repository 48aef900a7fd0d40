// Copies and fills of every form, as boxes between places.
#pragma once

#include "interposer/memory/memory.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <cstdint>

namespace vgpu::interposer {

/// Describes rows in memory, by host or device addresses.
struct rows {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0; ///< bytes from row to row
  std::uint64_t slice = 0; ///< bytes from slice to slice
};

/// Describes bytes in one piece.
constexpr rows flat(std::uint64_t address) noexcept {
  return {address, 0, 0};
}

/// Describes one copy of the driver API in a common form.
struct transfer {
  rows to{};
  rows from{};
  call::extent size{}; ///< in bytes, rows and slices
  /// Tells whether the call may return before the copy is done.
  bool async = false;
  /// Says what kind of memory a call's name promises for an end. With `unified`
  /// the address decides. Only an array's handle leads to the addresses of
  /// `array`.
  enum class side : std::uint8_t { unified, host, device, array };
  side to_side = side::unified;
  side from_side = side::unified;
  /// Says when a batch's copy uses the program's memory. An ordinary copy
  /// decides by its kind of memory.
  enum class order : std::uint8_t { usual, in_stream, during_call, any };
  order when = order::usual;
};

/// Describes one end of a copy struct.
struct box_end {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t x, y, z;
  std::size_t pitch, height;
};

/// Brings the two ends of a copy struct to the common form, after the driver's
/// checks.
CUresult to_transfer(const box_end& to, const box_end& from,
                     const call::extent& size, transfer& out);

/// Describes `bytes` of an array from `offset` on, row after row.
CUresult to_rows(CUarray handle, std::uint64_t offset, std::uint64_t bytes,
                 rows& out);

/// Brings a CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER to the common form. They differ
/// only in fields that this library does not need, because the addresses
/// determine the device.
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

/// Checks the addresses as transfer_bytes() does, and returns its errors. In a
/// captured stream, memory that the graph will allocate counts as allocated.
CUresult check_transfer(const stream& in, const transfer& what);

/// Checks the addresses and copies in stream order. Returns
/// CUDA_ERROR_INVALID_VALUE for ranges that are not allocated. When it returns,
/// and when the program's memory is read or written, depends on the kinds of
/// memory (docs/design/host-memory.md). Precondition: the stream is not
/// captured (graph/captured_work.hpp).
CUresult transfer_bytes(stream& in, const transfer& what);

/// Checks the arguments as fill_bytes() does, and returns its errors. In a
/// captured stream, memory that the graph will allocate counts as allocated.
CUresult check_fill(const stream& in, const rows& to,
                    std::uint32_t element_bytes, const call::extent& size);

/// Fills rows of elements that are `element_bytes` wide; `size` is in elements.
/// Unless `async`, managed and pinned memory is filled when the call returns.
/// Precondition: the stream is not captured (graph/captured_work.hpp).
CUresult fill_bytes(stream& in, const rows& to, std::uint32_t value,
                    std::uint32_t element_bytes, const call::extent& size,
                    bool async = true);

} // namespace vgpu::interposer
