#include "devices/nvidia/driver/tensor_maps.hpp"

#include <cstring>

namespace vgpu::device::nvidia {

namespace {

void* address_of(const tensor_map_spec& x) {
  return reinterpret_cast<void*>(x.address);
}

CUresult tiled(const driver& api, const tensor_map_spec& x, CUtensorMap& out) {
  return api.cuTensorMapEncodeTiled(
      &out, static_cast<CUtensorMapDataType>(x.type), x.rank, address_of(x),
      x.sizes.data(), x.strides.data(), x.box.data(), x.steps.data(),
      static_cast<CUtensorMapInterleave>(x.interleave),
      static_cast<CUtensorMapSwizzle>(x.swizzle),
      static_cast<CUtensorMapL2promotion>(x.promotion),
      static_cast<CUtensorMapFloatOOBfill>(x.fill));
}

CUresult im2col(const driver& api, const tensor_map_spec& x, CUtensorMap& out) {
  return api.cuTensorMapEncodeIm2col(
      &out, static_cast<CUtensorMapDataType>(x.type), x.rank, address_of(x),
      x.sizes.data(), x.strides.data(), x.lower.data(), x.upper.data(),
      x.channels, x.pixels, x.steps.data(),
      static_cast<CUtensorMapInterleave>(x.interleave),
      static_cast<CUtensorMapSwizzle>(x.swizzle),
      static_cast<CUtensorMapL2promotion>(x.promotion),
      static_cast<CUtensorMapFloatOOBfill>(x.fill));
}

CUresult im2col_wide(const driver& api, const tensor_map_spec& x,
                     CUtensorMap& out) {
  if (api.cuTensorMapEncodeIm2colWide == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  return api.cuTensorMapEncodeIm2colWide(
      &out, static_cast<CUtensorMapDataType>(x.type), x.rank, address_of(x),
      x.sizes.data(), x.strides.data(), x.lower[0], x.upper[0], x.channels,
      x.pixels, x.steps.data(),
      static_cast<CUtensorMapInterleave>(x.interleave),
      static_cast<CUtensorMapIm2ColWideMode>(x.mode),
      static_cast<CUtensorMapSwizzle>(x.swizzle),
      static_cast<CUtensorMapL2promotion>(x.promotion),
      static_cast<CUtensorMapFloatOOBfill>(x.fill));
}

CUresult moved(const driver& api, const tensor_map_spec& x, CUtensorMap& out) {
  std::memcpy(&out, x.from.data(), sizeof out);
  return api.cuTensorMapReplaceAddress(&out, address_of(x));
}

CUresult encode(const driver& api, const tensor_map_spec& x, CUtensorMap& out) {
  switch (static_cast<tensor_map_form>(x.form)) {
  case tensor_map_form::tiled:
    return tiled(api, x, out);
  case tensor_map_form::im2col:
    return im2col(api, x, out);
  case tensor_map_form::im2col_wide:
    return im2col_wide(api, x, out);
  case tensor_map_form::moved:
    return moved(api, x, out);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

} // namespace

result<tensor_map> encode_tensor_map(const driver& api,
                                     const tensor_map_spec& what) {
  CUtensorMap made = {};
  static_assert(sizeof made == sizeof(tensor_map));
  if (auto code = encode(api, what, made); code != CUDA_SUCCESS)
    return api.failed(code, "a tensor map");
  tensor_map out;
  std::memcpy(out.data(), &made, sizeof made);
  return out;
}

} // namespace vgpu::device::nvidia
