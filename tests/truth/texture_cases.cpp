// Arrays, mipmapped arrays, texture and surface objects.
#include "truth_case.hpp"

#include <vector>

namespace vgpu::test {

namespace {

CUDA_ARRAY3D_DESCRIPTOR floats(size_t width, size_t height, size_t depth,
                               unsigned flags) {
  return {width, height, depth, CU_AD_FORMAT_FLOAT, 1, flags};
}

CUresult make(const CUDA_ARRAY3D_DESCRIPTOR& how) {
  CUarray out = nullptr;
  return cuArray3DCreate(&out, &how);
}

CUarray square() {
  CUarray out = nullptr;
  auto how = floats(4, 4, 0, 0);
  require(cuArray3DCreate(&out, &how), "cuArray3DCreate");
  return out;
}

CUDA_RESOURCE_DESC showing(CUarray x) {
  CUDA_RESOURCE_DESC out = {};
  out.resType = CU_RESOURCE_TYPE_ARRAY;
  out.res.array.hArray = x;
  return out;
}

void shapes(report& out) {
  use_device();
  out << make(floats(4, 4, 0, CUDA_ARRAY3D_TEXTURE_GATHER))
      << make(floats(4, 4, 4, CUDA_ARRAY3D_TEXTURE_GATHER))
      << make(floats(4, 0, 4, 0)) << make(floats(4, 4, 0, CUDA_ARRAY3D_LAYERED))
      << make(floats(4, 8, 6, CUDA_ARRAY3D_CUBEMAP))
      << make(floats(size_t{1} << 20, 1, 0, 0))
      << make(floats(4, 4, 0, 1U << 16))
      << make(floats(16384, 16384, 16384, 0));
}

void array_copies(report& out) {
  use_device();
  std::vector<char> host(256);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 16;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = square();
  copy.WidthInBytes = 16;
  copy.Height = 4;
  out << cuMemcpy2D(&copy);
  copy.Height = 5;
  out << cuMemcpy2D(&copy);
  copy.Height = 1;
  copy.srcPitch = copy.WidthInBytes = 20;
  out << cuMemcpy2D(&copy);
  copy.WidthInBytes = 4;
  copy.dstArray = nullptr;
  out << cuMemcpy2D(&copy);
}

void mipmaps(report& out) {
  use_device();
  auto how = floats(8, 8, 0, 0);
  CUmipmappedArray mips = nullptr;
  CUarray level = nullptr;
  out << cuMipmappedArrayCreate(&mips, &how, 0)
      << cuMipmappedArrayCreate(&mips, &how, 9)
      << cuMipmappedArrayGetLevel(&level, mips, 4)
      << cuMipmappedArrayGetLevel(&level, mips, 3)
      << cuMipmappedArrayGetLevel(&level, mips, 0) << cuArrayDestroy(level);
}

void objects(report& out) {
  use_device();
  auto resource = showing(square());
  CUDA_TEXTURE_DESC how = {};
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  out << cuTexObjectCreate(&texture, &resource, &how, nullptr)
      << cuSurfObjectCreate(&surface, &resource) << cuTexObjectDestroy(texture)
      << cuTexObjectDestroy(texture) << cuTexObjectDestroy(0)
      << cuTexObjectDestroy(9999);
}

void integers(report& out) {
  use_device();
  CUDA_ARRAY_DESCRIPTOR shape = {4, 4, CU_AD_FORMAT_UNSIGNED_INT32, 4};
  CUarray array = nullptr;
  require(cuArrayCreate(&array, &shape), "cuArrayCreate");
  auto resource = showing(array);
  CUDA_TEXTURE_DESC how = {};
  how.filterMode = CU_TR_FILTER_MODE_LINEAR;
  how.flags = CU_TRSF_READ_AS_INTEGER;
  CUtexObject texture = 0;
  out << cuTexObjectCreate(&texture, &resource, &how, nullptr);
}

void linear_memory(report& out) {
  use_device();
  auto p = allocate(4096);
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  CUDA_TEXTURE_DESC how = {};
  CUtexObject texture = 0;
  for (auto offset : {0U, 4U, 16U, 32U, 512U}) {
    resource.res.linear = {p + offset, CU_AD_FORMAT_FLOAT, 1, 64};
    out << cuTexObjectCreate(&texture, &resource, &how, nullptr);
  }
  resource.res.linear.sizeInBytes = 0;
  out << cuTexObjectCreate(&texture, &resource, &how, nullptr);
}

void rows(report& out) {
  use_device();
  auto p = allocate(4096);
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  CUDA_TEXTURE_DESC how = {};
  CUtexObject texture = 0;
  for (auto pitch : {size_t{64}, size_t{48}})
    for (auto offset : {0U, 32U}) {
      resource.res.pitch2D = {p + offset, CU_AD_FORMAT_FLOAT, 1, 8, 4, pitch};
      out << cuTexObjectCreate(&texture, &resource, &how, nullptr);
    }
}

constexpr truth_case cases[] = {
    {"array_shapes",
     "Array3DCreate: gather, gather 3D, depth without height, layered "
     "without layers, cubemap 4x8, too wide, unknown flag, 16 TiB",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_OUT_OF_MEMORY",
     shapes},
    {"array_copies", "Memcpy2D to an array: right, too high, too wide, null",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE",
     array_copies},
    {"mipmapped_arrays",
     "MipmappedArrayCreate 8x8 of 0, 9 levels; GetLevel 4, 3, 0; destroy it",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS "
     "CUDA_SUCCESS CUDA_SUCCESS",
     mipmaps},
    {"texture_objects",
     "TexObjectCreate, SurfObjectCreate without its flag; TexObjectDestroy "
     "twice, 0, unknown",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_SUCCESS",
     objects},
    {"filtered_integers", "TexObjectCreate: linear filter, read as integers",
     "CUDA_SUCCESS", integers},
    {"textures_of_memory",
     "TexObjectCreate of linear memory at +0, +4, +16, +32, +512; of 0 bytes",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS CUDA_SUCCESS",
     linear_memory},
    {"textures_of_rows",
     "TexObjectCreate of rows: pitch 64 at +0, +32, pitch 48 at +0, +32",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE",
     rows},
};

} // namespace

std::span<const truth_case> texture_cases() {
  return cases;
}

} // namespace vgpu::test
