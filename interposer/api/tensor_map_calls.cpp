// Entry points for tensor maps.
#include "interposer/api/entry.hpp"

#include "interposer/memory/tensor_map.hpp"

#include <algorithm>
#include <cstring>

using namespace vgpu::interposer;

namespace {

using vgpu::tensor_map_form;
using vgpu::tensor_map_spec;

/// Copies `count` values. Returns false where the array is null, even for 0
/// values (as driver 580 does).
template <class From, class To>
bool take(const From* from, std::size_t count, To& to) {
  if (from == nullptr)
    return false;
  std::copy_n(from, count, to.begin());
  return true;
}

/// Holds the arguments that all forms have in common. The driver checks the
/// values; this library refuses only values that it cannot transmit.
struct shape_arguments {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t* sizes;
  const cuuint64_t* strides;
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

bool take_shape(const shape_arguments& x, tensor_map_form form,
                tensor_map_spec& out) {
  if (x.rank == 0 || x.rank > tensor_map_spec::most_dimensions ||
      !take(x.sizes, x.rank, out.sizes) ||
      !take(x.strides, x.rank - 1, out.strides) ||
      !take(x.steps, x.rank, out.steps))
    return false;
  out.form = static_cast<std::uint32_t>(form);
  out.type = static_cast<std::uint32_t>(x.type);
  out.rank = x.rank;
  out.address = reinterpret_cast<std::uintptr_t>(x.address);
  out.interleave = static_cast<std::uint32_t>(x.interleave);
  out.swizzle = static_cast<std::uint32_t>(x.swizzle);
  out.promotion = static_cast<std::uint32_t>(x.promotion);
  out.fill = static_cast<std::uint32_t>(x.fill);
  return true;
}

/// Runs a body as in_context() does, where the device has tensor maps.
template <class Body>
CUresult in_mapping_context(const Body& body) noexcept {
  return in_context([&](context& x) {
    return has_tensor_maps(x) ? body(x) : CUDA_ERROR_NOT_SUPPORTED;
  });
}

/// Encodes a map. `more` reads the arguments that only this form has, and
/// returns whether they are valid.
template <class More>
CUresult encode(CUtensorMap* out, tensor_map_form form,
                const shape_arguments& shape, const More& more) noexcept {
  return in_mapping_context([&](context& x) {
    tensor_map_spec what;
    if (out == nullptr || !take_shape(shape, form, what) || !more(what))
      return CUDA_ERROR_INVALID_VALUE;
    return make_tensor_map(x, what, out);
  });
}

} // namespace

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
    cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
    const cuuint64_t* globalStrides, const cuuint32_t* boxDim,
    const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  return encode(
      tensorMap, tensor_map_form::tiled,
      {tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
       elementStrides, interleave, swizzle, l2Promotion, oobFill},
      [&](tensor_map_spec& what) { return take(boxDim, what.rank, what.box); });
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
    cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
    const cuuint64_t* globalStrides, const int* pixelBoxLowerCorner,
    const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  return encode(tensorMap, tensor_map_form::im2col,
                {tensorDataType, tensorRank, globalAddress, globalDim,
                 globalStrides, elementStrides, interleave, swizzle,
                 l2Promotion, oobFill},
                [&](tensor_map_spec& what) {
                  what.channels = channelsPerPixel;
                  what.pixels = pixelsPerColumn;
                  // The offsets cover all dimensions but the channels and the
                  // images.
                  return what.rank > 2 &&
                         take(pixelBoxLowerCorner, what.rank - 2, what.lower) &&
                         take(pixelBoxUpperCorner, what.rank - 2, what.upper);
                });
}

CUresult CUDAAPI cuTensorMapEncodeIm2colWide(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
    cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
    const cuuint64_t* globalStrides, int pixelBoxLowerCornerWidth,
    int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
    CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  return encode(tensorMap, tensor_map_form::im2col_wide,
                {tensorDataType, tensorRank, globalAddress, globalDim,
                 globalStrides, elementStrides, interleave, swizzle,
                 l2Promotion, oobFill},
                [&](tensor_map_spec& what) {
                  what.lower[0] = pixelBoxLowerCornerWidth;
                  what.upper[0] = pixelBoxUpperCornerWidth;
                  what.channels = channelsPerPixel;
                  what.pixels = pixelsPerColumn;
                  what.mode = static_cast<std::uint32_t>(mode);
                  return true;
                });
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* tensorMap,
                                           void* globalAddress) {
  return in_mapping_context([&](context& x) {
    if (tensorMap == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    tensor_map_spec what;
    what.form = static_cast<std::uint32_t>(tensor_map_form::moved);
    what.address = reinterpret_cast<std::uintptr_t>(globalAddress);
    static_assert(sizeof what.from == sizeof *tensorMap);
    std::memcpy(what.from.data(), tensorMap, sizeof what.from);
    return make_tensor_map(x, what, tensorMap);
  });
}
