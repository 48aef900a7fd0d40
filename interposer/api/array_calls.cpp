// Entry points for CUDA arrays and mipmapped arrays.
#include "interposer/api/waiting.hpp"

#include "interposer/memory/array.hpp"

using namespace vgpu;
using namespace vgpu::interposer;

namespace {

array_shape shape_of(const CUDA_ARRAY3D_DESCRIPTOR& x) noexcept {
  return {
      x.Width,       x.Height, x.Depth, static_cast<std::uint32_t>(x.Format),
      x.NumChannels, x.Flags,  0};
}

/// Calls `f` with the array.
template <class F>
CUresult with_array(CUarray handle, const F& f) noexcept {
  return by_handle([&]() -> CUresult {
    auto* x = arrays().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_HANDLE : f(*x);
  });
}

template <class F>
CUresult with_mipmap(CUmipmappedArray handle, const F& f) noexcept {
  return by_handle([&]() -> CUresult {
    auto* x = mipmaps().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_HANDLE : f(*x);
  });
}

} // namespace

// -- arrays
// ----------------------------------------------------------------------

CUresult CUDAAPI cuArrayCreate(CUarray* pHandle,
                               const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  return in_waiting_context([&](context& x) {
    if (pHandle == nullptr || pAllocateArray == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto& a = *pAllocateArray;
    return create_array(x,
                        {a.Width, a.Height, 0,
                         static_cast<std::uint32_t>(a.Format), a.NumChannels, 0,
                         0},
                        *pHandle);
  });
}

CUresult CUDAAPI cuArray3DCreate(
    CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  return in_waiting_context([&](context& x) {
    if (pHandle == nullptr || pAllocateArray == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return create_array(x, shape_of(*pAllocateArray), *pHandle);
  });
}

CUresult CUDAAPI cuArrayDestroy(CUarray hArray) {
  return waiting_by_handle([&] { return destroy_array(hArray); });
}

CUresult CUDAAPI cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor,
                                      CUarray hArray) {
  return with_array(hArray, [&](const array& x) {
    if (pArrayDescriptor == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pArrayDescriptor = {x.shape.width, x.shape.height,
                         static_cast<CUarray_format>(x.shape.format),
                         x.shape.channels};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuArray3DGetDescriptor(
    CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  return with_array(hArray, [&](const array& x) {
    if (pArrayDescriptor == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pArrayDescriptor = {
        x.shape.width,    x.shape.height,
        x.shape.depth,    static_cast<CUarray_format>(x.shape.format),
        x.shape.channels, x.shape.flags};
    return CUDA_SUCCESS;
  });
}

// The calls below concern arrays that are sparse, deferred or of several
// planes, which cannot exist here. For any other array the driver refuses the
// call.

CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*,
                                            CUarray array) {
  return with_array(array, [](auto&) { return CUDA_ERROR_INVALID_VALUE; });
}
CUresult CUDAAPI cuMipmappedArrayGetSparseProperties(
    CUDA_ARRAY_SPARSE_PROPERTIES*, CUmipmappedArray mipmap) {
  return with_mipmap(mipmap, [](auto&) { return CUDA_ERROR_INVALID_VALUE; });
}
CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*,
                                              CUarray array, CUdevice) {
  return with_array(array, [](auto&) { return CUDA_ERROR_INVALID_VALUE; });
}
CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(
    CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUmipmappedArray mipmap, CUdevice) {
  return with_mipmap(mipmap, [](auto&) { return CUDA_ERROR_INVALID_VALUE; });
}
CUresult CUDAAPI cuArrayGetPlane(CUarray*, CUarray hArray, unsigned int) {
  return with_array(hArray, [](auto&) { return CUDA_ERROR_INVALID_VALUE; });
}

// -- mipmapped arrays
// -----------------------------------------------------------------

CUresult CUDAAPI
cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                       const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                       unsigned int numMipmapLevels) {
  return in_waiting_context([&](context& x) {
    if (pHandle == nullptr || pMipmappedArrayDesc == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto shape = shape_of(*pMipmappedArrayDesc);
    shape.levels = numMipmapLevels;
    return create_mipmap(x, shape, *pHandle);
  });
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  return waiting_by_handle([&] { return destroy_mipmap(hMipmappedArray); });
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray* pLevelArray,
                                          CUmipmappedArray hMipmappedArray,
                                          unsigned int level) {
  return with_mipmap(hMipmappedArray, [&](const mipmap& x) {
    if (pLevelArray == nullptr || level >= x.levels.size())
      return CUDA_ERROR_INVALID_VALUE;
    *pLevelArray = x.levels[level];
    return CUDA_SUCCESS;
  });
}
