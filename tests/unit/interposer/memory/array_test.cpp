#include "tests/unit/interposer/driver_fixture.hpp"

#include <cstring>
#include <numeric>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr int array_destroy_number = 41, texture_known_number = 43,
              texture_destroy_number = 44;

CUDA_ARRAY3D_DESCRIPTOR shape(std::size_t width, std::size_t height,
                              std::size_t depth, unsigned flags = 0,
                              unsigned channels = 1) {
  return {width, height, depth, CU_AD_FORMAT_FLOAT, channels, flags};
}

CUarray make(const CUDA_ARRAY3D_DESCRIPTOR& how) {
  CUarray out = nullptr;
  REQUIRE_OK(cuArray3DCreate(&out, &how));
  return out;
}

std::vector<int> numbers(std::size_t count, int first = 0) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Returns the whole contents of an array.
std::vector<int> content(CUarray from, std::size_t width, std::size_t height,
                         std::size_t depth = 1) {
  std::vector<int> out(width * height * depth);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = from;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = width * 4;
  copy.dstHeight = height;
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  REQUIRE_OK(cuMemcpy3D(&copy));
  return out;
}

CUDA_RESOURCE_DESC showing(CUarray x) {
  CUDA_RESOURCE_DESC out{};
  out.resType = CU_RESOURCE_TYPE_ARRAY;
  out.res.array.hArray = x;
  return out;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(arrays, driver_fixture)

BOOST_AUTO_TEST_CASE(invalid_shapes_are_refused) {
  auto refused = [](const CUDA_ARRAY3D_DESCRIPTOR& how, CUresult code) {
    CUarray out = nullptr;
    BOOST_TEST(cuArray3DCreate(&out, &how) == code);
  };
  constexpr auto invalid = CUDA_ERROR_INVALID_VALUE;
  refused(shape(0, 4, 0), invalid);
  refused(shape(4, 4, 0, 0, 3), invalid);
  refused(shape(1 << 20, 4, 0), invalid);
  refused(shape(4, 0, 4), invalid);
  refused(shape(4, 4, 0, CUDA_ARRAY3D_LAYERED), invalid);
  refused(shape(4, 8, 6, CUDA_ARRAY3D_CUBEMAP), invalid);
  refused(shape(4, 4, 12, CUDA_ARRAY3D_CUBEMAP), invalid);
  refused(shape(4, 4, 7, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED), invalid);
  refused(shape(4, 4, 4, CUDA_ARRAY3D_TEXTURE_GATHER), invalid);
  refused(shape(4, 4, 0, 0x10000), invalid);
  refused(shape(4, 4, 0, CUDA_ARRAY3D_SPARSE), CUDA_ERROR_NOT_SUPPORTED);
  auto planes = shape(4, 4, 0);
  planes.Format = CU_AD_FORMAT_NV12;
  refused(planes, CUDA_ERROR_NOT_SUPPORTED);
  planes.Format = unknown_value<CUarray_format>(0x77);
  refused(planes, invalid);
  // This is more than the quota.
  refused(shape(30000, 30000, 0), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CODE(cuArray3DCreate(nullptr, &planes), CUDA_ERROR_INVALID_VALUE);
  CUarray out = nullptr;
  CHECK_CODE(cuArrayCreate(&out, nullptr), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(an_array_has_its_shape_and_counts_against_the_quota) {
  std::size_t before = 0, during = 0, after = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&before, &total));
  auto a = make(shape(512, 256, 4, CUDA_ARRAY3D_LAYERED, 2));
  REQUIRE_OK(cuMemGetInfo(&during, &total));
  BOOST_TEST(before - during == 512U * 256 * 4 * 8);
  CUDA_ARRAY3D_DESCRIPTOR told{};
  REQUIRE_OK(cuArray3DGetDescriptor(&told, a));
  BOOST_TEST(told.Width == 512U);
  BOOST_TEST(told.Height == 256U);
  BOOST_TEST(told.Depth == 4U);
  BOOST_TEST(told.NumChannels == 2U);
  BOOST_TEST(told.Flags == unsigned{CUDA_ARRAY3D_LAYERED});
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CHECK_CODE(cuArrayGetMemoryRequirements(&needs, a, 0),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuArrayDestroy(a));
  CHECK_CODE(cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuArray3DGetDescriptor(&told, a), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuMemGetInfo(&after, &total));
  BOOST_TEST(before == after);
}

BOOST_AUTO_TEST_CASE(boxes_are_copied_to_and_from_arrays) {
  auto a = make(shape(10, 6, 3));
  auto all = numbers(10 * 6 * 3);
  CUDA_MEMCPY3D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = all.data();
  in.srcPitch = 40;
  in.srcHeight = 6;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = a;
  in.WidthInBytes = 40;
  in.Height = 6;
  in.Depth = 3;
  REQUIRE_OK(cuMemcpy3D(&in));
  BOOST_TEST(content(a, 10, 6, 3) == all, boost::test_tools::per_element());

  // Copies a part of a slice through device memory and another array.
  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 4096));
  CUDA_MEMCPY3D part{};
  part.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  part.srcArray = a;
  part.srcXInBytes = 8;
  part.srcY = 1;
  part.srcZ = 2;
  part.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  part.dstDevice = memory;
  part.dstPitch = 64;
  part.WidthInBytes = 12;
  part.Height = 4;
  part.Depth = 1;
  REQUIRE_OK(cuMemcpy3DAsync(&part, nullptr));
  auto b = make(shape(3, 4, 0));
  CUDA_MEMCPY2D across{};
  across.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  across.srcDevice = memory;
  across.srcPitch = 64;
  across.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  across.dstArray = b;
  across.WidthInBytes = 12;
  across.Height = 4;
  REQUIRE_OK(cuMemcpy2D(&across));
  auto got = content(b, 3, 4);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 3; ++x)
      BOOST_TEST(got[static_cast<std::size_t>(3 * y + x)] ==
                 120 + 10 * (y + 1) + x + 2);
  REQUIRE_OK(cuMemFree(memory));
  REQUIRE_OK(cuArrayDestroy(a));
  REQUIRE_OK(cuArrayDestroy(b));
}

BOOST_AUTO_TEST_CASE(bytes_of_a_row_are_copied_between_all_kinds) {
  CUDA_ARRAY_DESCRIPTOR line{16, 0, CU_AD_FORMAT_FLOAT, 1};
  CUarray a = nullptr, b = nullptr;
  REQUIRE_OK(cuArrayCreate(&a, &line));
  REQUIRE_OK(cuArrayCreate(&b, &line));
  auto some = numbers(16, 100);
  REQUIRE_OK(cuMemcpyHtoA(a, 0, some.data(), 64));
  REQUIRE_OK(cuMemcpyAtoA(b, 16, a, 8, 32));
  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 64));
  REQUIRE_OK(cuMemcpyAtoD(memory, b, 16, 32));
  REQUIRE_OK(cuMemcpyDtoA(b, 0, memory, 16));
  std::vector<int> back(16);
  REQUIRE_OK(cuMemcpyAtoH(back.data(), b, 0, 48));
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(back[static_cast<std::size_t>(i)] == 102 + i);
  for (int i = 4; i < 12; ++i)
    BOOST_TEST(back[static_cast<std::size_t>(i)] == 98 + i);
  REQUIRE_OK(cuMemcpyHtoAAsync(a, 0, some.data(), 64, nullptr));
  REQUIRE_OK(cuMemcpyAtoHAsync(back.data(), a, 60, 4, nullptr));
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(back[0] == 115);
  CHECK_CODE(cuMemcpyHtoA(a, 4, some.data(), 64), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemcpyHtoA(a, 2, some.data(), 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemcpyHtoA(nullptr, 0, some.data(), 4),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(memory));
  REQUIRE_OK(cuArrayDestroy(a));
  REQUIRE_OK(cuArrayDestroy(b));
  CHECK_CODE(cuMemcpyHtoA(a, 0, some.data(), 4), CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(a_copy_stays_within_its_array) {
  auto a = make(shape(8, 4, 0));
  auto some = numbers(64);
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = some.data();
  in.srcPitch = 64;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = a;
  in.WidthInBytes = 32;
  in.Height = 5;
  CHECK_CODE(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);
  in.Height = 4;
  in.dstXInBytes = 4;
  CHECK_CODE(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);
  in.WidthInBytes = 6;
  CHECK_CODE(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);
  in.WidthInBytes = 28;
  REQUIRE_OK(cuMemcpy2D(&in));
  REQUIRE_OK(cuMemcpy2DUnaligned(&in));
  REQUIRE_OK(cuArrayDestroy(a));
}

BOOST_AUTO_TEST_CASE(mipmap_levels_are_arrays_that_end_with_their_array) {
  auto how = shape(16, 8, 0);
  CUmipmappedArray mips = nullptr;
  REQUIRE_OK(cuMipmappedArrayCreate(&mips, &how, 0)); // it has one level
  REQUIRE_OK(cuMipmappedArrayDestroy(mips));
  REQUIRE_OK(cuMipmappedArrayCreate(&mips, &how, 9)); // it has 5 levels
  CUarray level = nullptr, again = nullptr;
  CHECK_CODE(cuMipmappedArrayGetLevel(&level, mips, 5),
             CUDA_ERROR_INVALID_VALUE);
  std::vector<CUarray> levels;
  for (unsigned l = 0; l < 5; ++l) {
    REQUIRE_OK(cuMipmappedArrayGetLevel(&level, mips, l));
    levels.push_back(level);
    CUDA_ARRAY_DESCRIPTOR told{};
    REQUIRE_OK(cuArrayGetDescriptor(&told, level));
    BOOST_TEST(told.Width == 16U >> l);
    BOOST_TEST(told.Height == std::max(1U, 8U >> l));
    auto some = numbers(told.Width * told.Height, static_cast<int>(1000 * l));
    REQUIRE_OK(cuMemcpyHtoA(level, 0, some.data(), some.size() * 4));
  }
  for (unsigned l = 0; l < 5; ++l)
    BOOST_TEST(content(levels[l], 1, 1)[0] == static_cast<int>(1000 * l));
  REQUIRE_OK(cuMipmappedArrayGetLevel(&again, mips, 4));
  BOOST_TEST(again == level);
  REQUIRE_OK(cuArrayDestroy(level)); // without any effect
  BOOST_TEST(content(level, 1, 1)[0] == 4000);
  REQUIRE_OK(cuMipmappedArrayDestroy(mips));
  CHECK_CODE(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuMipmappedArrayDestroy(mips), CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(texture_objects_have_the_devices_values) {
  auto a = make(shape(8, 8, 0, CUDA_ARRAY3D_SURFACE_LDST));
  auto resource = showing(a);
  CUDA_TEXTURE_DESC how{};
  how.filterMode = CU_TR_FILTER_MODE_LINEAR;
  auto known = fake().counts()[texture_known_number];
  CUtexObject tex = 0;
  CUsurfObject surface = 0;
  REQUIRE_OK(cuTexObjectCreate(&tex, &resource, &how, nullptr));
  REQUIRE_OK(cuSurfObjectCreate(&surface, &resource));
  BOOST_TEST(tex > 1000U);
  BOOST_TEST(surface > tex);
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(fake().counts()[texture_known_number] == known + 2);

  CUDA_TEXTURE_DESC told{};
  REQUIRE_OK(cuTexObjectGetTextureDesc(&told, tex));
  BOOST_TEST((told.filterMode == CU_TR_FILTER_MODE_LINEAR));
  CUDA_RESOURCE_DESC shown{};
  REQUIRE_OK(cuSurfObjectGetResourceDesc(&shown, surface));
  BOOST_TEST(shown.res.array.hArray == a);
  CUDA_RESOURCE_VIEW_DESC view{};
  CHECK_CODE(cuTexObjectGetResourceViewDesc(&view, tex),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuTexObjectGetTextureDesc(&told, surface),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuTexObjectDestroy(tex));
  // The driver accepts values that are not objects.
  REQUIRE_OK(cuTexObjectDestroy(tex));
  REQUIRE_OK(cuTexObjectDestroy(surface));
  REQUIRE_OK(cuSurfObjectGetResourceDesc(&shown, surface));
  REQUIRE_OK(cuSurfObjectDestroy(surface));
  CHECK_CODE(cuSurfObjectGetResourceDesc(&shown, surface),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuArrayDestroy(a));
}

BOOST_AUTO_TEST_CASE(invalid_textures_and_surfaces_are_refused) {
  auto a = make(shape(8, 8, 0));
  auto resource = showing(a);
  CUDA_TEXTURE_DESC how{};
  CUtexObject tex = 0;
  CUsurfObject surface = 0;
  CHECK_CODE(cuTexObjectCreate(nullptr, &resource, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuTexObjectCreate(&tex, nullptr, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuTexObjectCreate(&tex, &resource, nullptr, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  how.addressMode[1] = unknown_value<CUaddress_mode>(9);
  CHECK_CODE(cuTexObjectCreate(&tex, &resource, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  how = {};
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = CU_RES_VIEW_FORMAT_UINT_2X32;
  view.width = view.height = 8;
  CHECK_CODE(cuTexObjectCreate(&tex, &resource, &how, &view),
             CUDA_ERROR_INVALID_VALUE);
  view.format = CU_RES_VIEW_FORMAT_UINT_1X32;
  REQUIRE_OK(cuTexObjectCreate(&tex, &resource, &how, &view));
  REQUIRE_OK(cuTexObjectDestroy(tex));
  REQUIRE_OK(cuSurfObjectCreate(&surface, &resource));
  REQUIRE_OK(cuSurfObjectDestroy(surface));

  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 4096));
  resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {memory, CU_AD_FORMAT_SIGNED_INT32, 1, 4096};
  REQUIRE_OK(cuTexObjectCreate(&tex, &resource, &how, nullptr));
  REQUIRE_OK(cuTexObjectDestroy(tex));
  resource.res.linear.devPtr = memory + 16;
  CHECK_CODE(cuTexObjectCreate(&tex, &resource, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D = {memory, CU_AD_FORMAT_FLOAT, 1, 16, 8, 64};
  REQUIRE_OK(cuTexObjectCreate(&tex, &resource, &how, nullptr));
  REQUIRE_OK(cuTexObjectDestroy(tex));
  resource.res.pitch2D.pitchInBytes = 32;
  CHECK_CODE(cuTexObjectCreate(&tex, &resource, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(memory));
  REQUIRE_OK(cuArrayDestroy(a));
}

BOOST_AUTO_TEST_CASE(a_contexts_end_destroys_its_arrays_and_objects) {
  CUcontext own = nullptr;
  REQUIRE_OK(cuCtxCreate(&own, nullptr, 0, 0));
  auto a = make(shape(8, 8, 0));
  auto how = shape(8, 8, 0);
  CUmipmappedArray mips = nullptr;
  REQUIRE_OK(cuMipmappedArrayCreate(&mips, &how, 2));
  auto resource = showing(a);
  CUDA_TEXTURE_DESC sampling{};
  CUtexObject tex = 0;
  REQUIRE_OK(cuTexObjectCreate(&tex, &resource, &sampling, nullptr));
  auto before = fake().counts();
  REQUIRE_OK(cuCtxDestroy(own));
  REQUIRE_OK(cuCtxSetCurrent(primary));
  REQUIRE_OK(cuCtxSynchronize());
  auto after = fake().counts();
  BOOST_TEST(after[array_destroy_number] - before[array_destroy_number] == 2);
  BOOST_TEST(after[texture_destroy_number] - before[texture_destroy_number] ==
             1);
  CHECK_CODE(cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuTexObjectGetTextureDesc(&sampling, tex),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_graph_copies_into_an_array) {
  auto a = make(shape(8, 4, 0));
  auto some = numbers(32, 7);
  CUDA_MEMCPY3D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = some.data();
  in.srcPitch = 16;
  in.srcHeight = 2;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = a;
  in.dstXInBytes = 8;
  in.dstY = 1;
  in.WidthInBytes = 16;
  in.Height = 2;
  in.Depth = 1;
  CUgraph graph = nullptr;
  REQUIRE_OK(cuGraphCreate(&graph, 0));
  CUgraphNode node = nullptr;
  REQUIRE_OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &in, primary));
  CUDA_MEMCPY3D told{};
  REQUIRE_OK(cuGraphMemcpyNodeGetParams(node, &told));
  BOOST_TEST((told.dstMemoryType == CU_MEMORYTYPE_ARRAY));
  BOOST_TEST(told.dstArray == a);
  BOOST_TEST(told.dstXInBytes == 8U);
  BOOST_TEST(told.dstY == 1U);
  CUgraphExec ready = nullptr;
  REQUIRE_OK(cuGraphInstantiate(&ready, graph, 0));
  REQUIRE_OK(cuGraphLaunch(ready, nullptr));
  REQUIRE_OK(cuCtxSynchronize());
  auto got = content(a, 8, 4);
  BOOST_TEST(got[8 + 2] == 7);
  BOOST_TEST(got[16 + 5] == 7 + 7);
  REQUIRE_OK(cuGraphExecDestroy(ready));
  REQUIRE_OK(cuGraphDestroy(graph));
  REQUIRE_OK(cuArrayDestroy(a));
}

BOOST_AUTO_TEST_SUITE_END()
