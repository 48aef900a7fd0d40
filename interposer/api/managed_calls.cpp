// Entry points for managed memory that take no stream.
#include "interposer/api/entry.hpp"

#include "interposer/api/waiting.hpp"
#include "interposer/memory/managed_advice.hpp"
#include "interposer/memory/managed_place.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <cstring>
#include <span>

using namespace vgpu::interposer;

namespace {

using location = advice::location;

CUresult advise(CUdeviceptr at, std::size_t bytes, CUmem_advise what,
                location where) {
  if (bytes == 0 || !is_managed(at, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::function<void(advice&)> change;
  auto names_place = true;
  switch (what) {
  case CU_MEM_ADVISE_SET_READ_MOSTLY:
  case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    names_place = false;
    change = [&](advice& x) {
      x.read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
    };
    break;
  case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
    change = [&](advice& x) { x.preferred = where; };
    break;
  case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
    names_place = false;
    change = [](advice& x) { x.preferred = advice::nowhere; };
    break;
  case CU_MEM_ADVISE_SET_ACCESSED_BY:
    change = [&](advice& x) { x.accessed_by.insert(where); };
    break;
  case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
    change = [&](advice& x) { x.accessed_by.erase(where); };
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (names_place)
    if (auto code = check_place(where); code != CUDA_SUCCESS)
      return code;
  given_advice().apply(at, bytes, change);
  return CUDA_SUCCESS;
}

// The functions below answer queries about a range.

template <class T>
CUresult give(void* data, std::size_t bytes, T value) {
  if (bytes != sizeof(value))
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

/// Returns a device's number, or a negative one for the host and for no place.
int ordinal_of(location x) {
  if (x.first == CU_MEM_LOCATION_TYPE_DEVICE)
    return x.second;
  return x == advice::nowhere ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/// Returns the place that all parts of the range share, or none.
location common(CUdeviceptr at, std::size_t bytes, location advice::*which) {
  std::optional<location> all;
  given_advice().each(at, bytes, [&](const advice& x) {
    all = !all || *all == x.*which ? x.*which : advice::nowhere;
  });
  return all.value_or(advice::nowhere);
}

CUresult give_accessed_by(std::span<int> out, CUdeviceptr at,
                          std::size_t bytes) {
  std::optional<std::set<location>> all;
  given_advice().each(at, bytes, [&](const advice& x) {
    if (!all)
      all = x.accessed_by;
    else
      std::erase_if(*all, [&](auto& y) { return !x.accessed_by.contains(y); });
  });
  std::fill(out.begin(), out.end(), CU_DEVICE_INVALID);
  auto next = out.begin();
  for (auto& x : all.value_or(std::set<location>{}))
    if (next != out.end())
      *next++ = ordinal_of(x);
  return CUDA_SUCCESS;
}

CUresult range_attribute(void* data, std::size_t size,
                         CUmem_range_attribute which, CUdeviceptr at,
                         std::size_t bytes) {
  if (data == nullptr || size == 0 || bytes == 0 || !is_managed(at, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  auto preferred = common(at, bytes, &advice::preferred);
  auto prefetched = common(at, bytes, &advice::prefetched);
  switch (which) {
  case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: {
    auto all = true;
    given_advice().each(at, bytes,
                        [&](const advice& x) { all = all && x.read_mostly; });
    return give(data, size, all ? 1 : 0);
  }
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    return give(data, size, ordinal_of(preferred));
  case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
    if (size % sizeof(int) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return give_accessed_by({static_cast<int*>(data), size / sizeof(int)}, at,
                            bytes);
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    return give(data, size, ordinal_of(prefetched));
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    return give(data, size, preferred.first);
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    return give(data, size, preferred.second);
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
    return give(data, size, prefetched.first);
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
    return give(data, size, prefetched.second);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize,
                                   unsigned int flags) {
  call_arguments given{__func__, dptr, bytesize, flags};
  return in_waiting_context([&](context& x) -> CUresult {
    if (dptr == nullptr || bytesize == 0 ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
      return CUDA_ERROR_INVALID_VALUE;
    // No lock is held here, because *dptr may lie in managed memory itself.
    CUdeviceptr made = 0;
    auto code = allocate_managed(x, bytesize, flags, made);
    if (code == CUDA_SUCCESS)
      *dptr = made;
    return code;
  });
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count,
                             CUmem_advise what, CUmemLocation where) {
  return in_context([&](context&) {
    return advise(devPtr, count, what, {where.type, where.id});
  });
}

extern "C" CUresult mem_advise_v1(CUdeviceptr at, size_t bytes,
                                  CUmem_advise what, CUdevice where)
    VGPU_EXPORT_AS("cuMemAdvise");
CUresult mem_advise_v1(CUdeviceptr at, size_t bytes, CUmem_advise what,
                       CUdevice where) {
  return in_context(
      [&](context&) { return advise(at, bytes, what, place_of(where)); });
}

CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t dataSize,
                                        CUmem_range_attribute attribute,
                                        CUdeviceptr devPtr, size_t count) {
  return in_context([&](context&) {
    return range_attribute(data, dataSize, attribute, devPtr, count);
  });
}

CUresult CUDAAPI cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                         CUmem_range_attribute* attributes,
                                         size_t numAttributes,
                                         CUdeviceptr devPtr, size_t count) {
  return in_context([&](context&) -> CUresult {
    if (data == nullptr || dataSizes == nullptr || attributes == nullptr ||
        numAttributes == 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < numAttributes; ++i)
      if (auto code = range_attribute(data[i], dataSizes[i], attributes[i],
                                      devPtr, count);
          code != CUDA_SUCCESS)
        return code;
    return CUDA_SUCCESS;
  });
}
