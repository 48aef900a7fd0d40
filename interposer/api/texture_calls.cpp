// Entry points for texture and surface objects.
#include "interposer/api/entry.hpp"

#include "interposer/memory/texture_object.hpp"

using namespace vgpu::interposer;

namespace {

/// Returns a part of the object's description.
template <class Part, class Pick>
CUresult describe(Part* out, unsigned long long value, bool surface,
                  const Pick& pick) noexcept {
  return in_context([&](context& in) -> CUresult {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto x = find_texture(in, value, surface);
    return x ? pick(*x) : CUDA_ERROR_INVALID_VALUE;
  });
}

} // namespace

CUresult CUDAAPI
cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                  const CUDA_TEXTURE_DESC* pTexDesc,
                  const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  return in_context([&](context& x) {
    if (pTexObject == nullptr || pResDesc == nullptr || pTexDesc == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return create_texture(x, *pResDesc, *pTexDesc, pResViewDesc, *pTexObject);
  });
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texObject) {
  return in_context(
      [&](context& x) { return destroy_texture(x, texObject, false); });
}

CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc,
                                            CUtexObject texObject) {
  return describe(pResDesc, texObject, false, [&](const texture& x) {
    *pResDesc = x.resource;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc,
                                           CUtexObject texObject) {
  return describe(pTexDesc, texObject, false, [&](const texture& x) {
    *pTexDesc = x.sampling;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuTexObjectGetResourceViewDesc(
    CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
  return describe(pResViewDesc, texObject, false, [&](const texture& x) {
    if (!x.view)
      return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = *x.view;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject* pSurfObject,
                                    const CUDA_RESOURCE_DESC* pResDesc) {
  return in_context([&](context& x) {
    if (pSurfObject == nullptr || pResDesc == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return create_surface(x, *pResDesc, *pSurfObject);
  });
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject surfObject) {
  return in_context(
      [&](context& x) { return destroy_texture(x, surfObject, true); });
}

CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc,
                                             CUsurfObject surfObject) {
  return describe(pResDesc, surfObject, true, [&](const texture& x) {
    *pResDesc = x.resource;
    return CUDA_SUCCESS;
  });
}
