#include "interposer/memory/copy_batch.hpp"

#include "interposer/memory/array.hpp"
#include "interposer/memory/managed_place.hpp"

#include <algorithm>

namespace vgpu::interposer {

namespace {

transfer::order order_of(CUmemcpySrcAccessOrder x) noexcept {
  return x == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ? transfer::order::in_stream
         : x == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
             ? transfer::order::during_call
             : transfer::order::any;
}

bool is_order(CUmemcpySrcAccessOrder x) noexcept {
  return x == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
         x == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
         x == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

bool are_flags(unsigned x) noexcept {
  return (x & ~unsigned{CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE}) == 0;
}

/// Tells whether a hint is valid. Hints are for memory without a fixed place,
/// which does not exist here, but the place that a hint names must exist.
bool is_hint(const CUmemLocation& x) noexcept {
  return x.type == CU_MEM_LOCATION_TYPE_INVALID ||
         check_place({x.type, x.id}) == CUDA_SUCCESS;
}

bool are_attributes(const CUmemcpyAttributes& x) noexcept {
  return is_order(x.srcAccessOrder) && are_flags(x.flags) &&
         is_hint(x.srcLocHint) && is_hint(x.dstLocHint);
}

bool is_null(const CUmemcpy3DOperand& x) noexcept {
  return x.type == CU_MEMCPY_OPERAND_TYPE_POINTER && x.op.ptr.ptr == 0;
}

bool repeats(std::span<const std::size_t> sorted) noexcept {
  return std::ranges::adjacent_find(sorted) != sorted.end();
}

const array* array_of(const CUmemcpy3DOperand& x) noexcept {
  return x.type == CU_MEMCPY_OPERAND_TYPE_ARRAY
             ? arrays().find(x.op.array.array)
             : nullptr;
}

/// Converts an end whose coordinates count elements.
box_end end_of(const CUmemcpy3DOperand& x, std::uint64_t element) noexcept {
  box_end out{};
  if (x.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    out.type = CU_MEMORYTYPE_ARRAY;
    out.array = x.op.array.array;
    out.x = x.op.array.offset.x * element;
    out.y = x.op.array.offset.y;
    out.z = x.op.array.offset.z;
  } else {
    out.type = CU_MEMORYTYPE_UNIFIED;
    out.device = x.op.ptr.ptr;
    out.pitch = x.op.ptr.rowLength * element;
    out.height = x.op.ptr.layerHeight;
  }
  return out;
}

bool is_operand(const CUmemcpy3DOperand& x) noexcept {
  if (x.type == CU_MEMCPY_OPERAND_TYPE_POINTER)
    return x.op.ptr.rowLength <= window_bytes;
  return x.type == CU_MEMCPY_OPERAND_TYPE_ARRAY &&
         x.op.array.offset.x <= window_bytes;
}

CUresult describe(const CUDA_MEMCPY3D_BATCH_OP& from, transfer& out) {
  const auto& size = from.extent;
  if (!is_order(from.srcAccessOrder) || !are_flags(from.flags) ||
      !is_operand(from.src) || !is_operand(from.dst) || size.width == 0 ||
      size.height == 0 || size.depth == 0 || size.width > window_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const auto* source = array_of(from.src);
  const auto* target = array_of(from.dst);
  if (source != nullptr && target != nullptr &&
      source->element != target->element)
    return CUDA_ERROR_INVALID_VALUE;
  const auto* either = source != nullptr ? source : target;
  auto element = either != nullptr ? either->element : 1;
  out.async = true;
  out.when = order_of(from.srcAccessOrder);
  return to_transfer(end_of(from.dst, element), end_of(from.src, element),
                     {size.width * element, size.height, size.depth}, out);
}

} // namespace

bool divides(const std::size_t* first, std::size_t groups,
             std::size_t count) noexcept {
  return first != nullptr && groups != 0 && groups <= count && first[0] == 0 &&
         first[groups - 1] < count && std::is_sorted(first, first + groups);
}

batch_fault describe(const flat_batch& from, std::vector<transfer>& out) {
  if (from.count == 0 || from.to == nullptr || from.from == nullptr ||
      from.sizes == nullptr || from.attributes == nullptr ||
      !divides(from.first, from.attribute_count, from.count) ||
      repeats({from.first, from.attribute_count}) ||
      !std::all_of(from.attributes, from.attributes + from.attribute_count,
                   are_attributes))
    return {CUDA_ERROR_INVALID_VALUE};
  const auto* groups_end = from.first + from.attribute_count;
  for (std::size_t i = 0; i < from.count; ++i) {
    // The attributes of a group hold from its first copy on.
    auto group = std::upper_bound(from.first, groups_end, i) - from.first - 1;
    if (from.sizes[i] == 0)
      return {CUDA_ERROR_INVALID_VALUE, i};
    out.push_back({.to = flat(from.to[i]),
                   .from = flat(from.from[i]),
                   .size = {from.sizes[i], 1, 1},
                   .async = true,
                   .when = order_of(from.attributes[group].srcAccessOrder)});
  }
  return {};
}

batch_fault describe(std::span<const CUDA_MEMCPY3D_BATCH_OP> from,
                     std::vector<transfer>& out) {
  for (std::size_t i = 0; i < from.size(); ++i)
    if (auto code = describe(from[i], out.emplace_back()); code != CUDA_SUCCESS)
      return {code, i};
    else if (is_null(from[i].src) || is_null(from[i].dst))
      return {CUDA_ERROR_INVALID_VALUE};
  return {};
}

batch_fault transfer_all(stream& in, std::span<const transfer> what) {
  for (std::size_t i = 0; i < what.size(); ++i)
    if (auto code = check_transfer(in, what[i]); code != CUDA_SUCCESS)
      return {code, i};
  for (std::size_t i = 0; i < what.size(); ++i)
    if (auto code = transfer_bytes(in, what[i]); code != CUDA_SUCCESS)
      return {code, i};
  return {};
}

} // namespace vgpu::interposer
