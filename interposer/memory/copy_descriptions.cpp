#include "interposer/memory/copies.hpp"

#include "interposer/memory/array.hpp"

namespace vgpu::interposer {

namespace {

/// Tells whether `count` from `first` on lie within `all`.
bool is_within(std::uint64_t first, std::uint64_t count,
               std::uint64_t all) noexcept {
  return count <= all && first <= all - count;
}

CUresult resolve_array(const box_end& e, const call::extent& size, rows& out) {
  auto* x = arrays().find(e.array);
  if (x == nullptr)
    return e.array == nullptr ? CUDA_ERROR_INVALID_VALUE
                              : CUDA_ERROR_INVALID_HANDLE;
  const auto& place = x->place;
  if (e.x % x->element != 0 || size.width % x->element != 0 ||
      !is_within(e.x, size.width, place.row_bytes) ||
      !is_within(e.y, size.height, place.rows) ||
      !is_within(e.z, size.depth, place.slices))
    return CUDA_ERROR_INVALID_VALUE;
  out.pitch = place.row_bytes;
  out.slice = place.slice_bytes();
  out.address =
      x->address + place.offset + e.x + e.y * out.pitch + e.z * out.slice;
  return CUDA_SUCCESS;
}

CUresult resolve(const box_end& e, const call::extent& size, rows& out,
                 transfer::side& which) {
  switch (e.type) {
  case CU_MEMORYTYPE_HOST:
    out.address = reinterpret_cast<std::uintptr_t>(e.host);
    which = transfer::side::host;
    break;
  case CU_MEMORYTYPE_DEVICE:
    out.address = e.device;
    which = transfer::side::device;
    break;
  case CU_MEMORYTYPE_UNIFIED:
    out.address = e.device;
    which = transfer::side::unified;
    break;
  case CU_MEMORYTYPE_ARRAY:
    which = transfer::side::array;
    return resolve_array(e, size, out);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  out.pitch = e.pitch != 0 ? e.pitch : size.width + e.x;
  auto height = e.height != 0 ? e.height : size.height + e.y;
  if (out.pitch < size.width + e.x || height < size.height + e.y ||
      out.pitch > window_bytes || height > window_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  out.slice = out.pitch * height;
  out.address += e.x + e.y * out.pitch + e.z * out.slice;
  return CUDA_SUCCESS;
}

} // namespace

CUresult to_rows(CUarray handle, std::uint64_t offset, std::uint64_t bytes,
                 rows& out) {
  auto* x = arrays().find(handle);
  if (x == nullptr)
    return handle == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : CUDA_ERROR_INVALID_HANDLE;
  if (offset % x->element != 0 || bytes % x->element != 0 ||
      !is_within(offset, bytes, x->place.slice_bytes()))
    return CUDA_ERROR_INVALID_VALUE;
  out = flat(x->address + x->place.offset + offset);
  return CUDA_SUCCESS;
}

CUresult to_transfer(const box_end& to, const box_end& from,
                     const call::extent& size, transfer& out) {
  if (size.width > window_bytes || size.height > window_bytes ||
      size.depth > window_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  out.size = size;
  if (auto code = resolve(to, size, out.to, out.to_side); code != CUDA_SUCCESS)
    return code;
  return resolve(from, size, out.from, out.from_side);
}

} // namespace vgpu::interposer
