// Tensor maps: which are sent, which are cached, and launches with maps as
// parameters.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <cstring>
#include <thread>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

/// A matrix of floats with 256 in a row, in tiles of 32 x 8.
struct tiles {
  std::uint64_t address = first_window;
  cuuint32_t rank = 2;
  cuuint64_t sizes[5] = {256, 64, 1, 1, 1};
  cuuint64_t strides[4] = {1024, 65536, 65536, 65536};
  cuuint32_t box[5] = {32, 8, 1, 1, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};

  CUresult encode(CUtensorMap* out) const {
    return cuTensorMapEncodeTiled(
        out, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank,
        reinterpret_cast<void*>(address), sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
};

/// Returns the address at the beginning of the fake client's maps.
std::uint64_t address_in(const CUtensorMap& x) {
  return x.opaque[0];
}

struct tensor_map_fixture : driver_fixture {
  int asked() {
    return fake()
        .counts()[static_cast<std::uint16_t>(call::number::tensor_map_encode)];
  }

  CUtensorMap map{};
  const int before = asked();
  // Each test uses other addresses, so that the cache has none of them.
  static inline std::uint64_t fresh = first_window;
  tiles what{.address = fresh += std::uint64_t{1} << 32};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(tensor_maps, tensor_map_fixture)

BOOST_AUTO_TEST_CASE(equal_arguments_are_sent_once) {
  for (int i = 0; i < 10; ++i) {
    map = {};
    REQUIRE_OK(what.encode(&map));
    BOOST_TEST(address_in(map) == what.address);
  }
  BOOST_TEST(asked() == before + 1);
  what.address += 1024;
  REQUIRE_OK(what.encode(&map));
  BOOST_TEST(address_in(map) == what.address);
  what.box[1] = 4;
  REQUIRE_OK(what.encode(&map));
  BOOST_TEST(asked() == before + 3);
}

BOOST_AUTO_TEST_CASE(unused_dimensions_make_no_difference) {
  REQUIRE_OK(what.encode(&map));
  what.sizes[2] = 7;
  what.strides[1] = 3;
  what.box[4] = 0;
  REQUIRE_OK(what.encode(&map));
  BOOST_TEST(asked() == before + 1);
}

BOOST_AUTO_TEST_CASE(the_cache_of_maps_is_bounded) {
  auto first = what;
  REQUIRE_OK(first.encode(&map));
  for (int i = 0; i < 5000; ++i) {
    what.address += 16;
    REQUIRE_OK(what.encode(&map));
    BOOST_TEST_REQUIRE(address_in(map) == what.address);
  }
  BOOST_TEST(asked() == before + 5001);
  REQUIRE_OK(what.encode(&map));
  BOOST_TEST(asked() == before + 5001);
  REQUIRE_OK(first.encode(&map));
  BOOST_TEST(asked() == before + 5002);
}

BOOST_AUTO_TEST_CASE(refused_maps_are_not_cached) {
  std::memset(&map, 0x5a, sizeof map);
  auto untouched = map;
  what.box[0] = 0;
  CHECK_CODE(what.encode(&map), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(what.encode(&map), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(asked() == before + 2);
  BOOST_TEST(std::memcmp(&map, &untouched, sizeof map) == 0);
}

BOOST_AUTO_TEST_CASE(impossible_arguments_are_not_sent) {
  CHECK_CODE(what.encode(nullptr), CUDA_ERROR_INVALID_VALUE);
  for (auto rank : {0U, 6U, 1U << 31}) {
    what.rank = rank;
    CHECK_CODE(what.encode(&map), CUDA_ERROR_INVALID_VALUE);
  }
  auto encode = [&](const cuuint64_t* sizes, const cuuint64_t* strides,
                    const cuuint32_t* box, const cuuint32_t* steps) {
    return cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
        reinterpret_cast<void*>(what.address), sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  const auto& w = what;
  CHECK_CODE(encode(nullptr, w.strides, w.box, w.steps),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(encode(w.sizes, nullptr, w.box, w.steps),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(encode(w.sizes, w.strides, nullptr, w.steps),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(encode(w.sizes, w.strides, w.box, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(
      cuTensorMapReplaceAddress(nullptr, reinterpret_cast<void*>(what.address)),
      CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(asked() == before);
}

BOOST_AUTO_TEST_CASE(a_map_may_lie_at_any_address) {
  alignas(64) std::byte room[256];
  auto* at = reinterpret_cast<CUtensorMap*>(room + 16);
  REQUIRE_OK(what.encode(at));
  REQUIRE_OK(what.encode(&map));
  BOOST_TEST(std::memcmp(at, &map, sizeof map) == 0);
}

BOOST_AUTO_TEST_CASE(an_address_is_replaced_by_the_driver) {
  REQUIRE_OK(what.encode(&map));
  auto* elsewhere = reinterpret_cast<void*>(what.address + 4096);
  auto moved = map;
  REQUIRE_OK(cuTensorMapReplaceAddress(&moved, elsewhere));
  BOOST_TEST(address_in(moved) == what.address + 4096);
  BOOST_TEST(std::memcmp(&moved.opaque[1], &map.opaque[1],
                         sizeof map - sizeof map.opaque[0]) == 0);
  moved = map;
  REQUIRE_OK(cuTensorMapReplaceAddress(&moved, elsewhere));
  BOOST_TEST(asked() == before + 2);
}

BOOST_AUTO_TEST_CASE(forms_of_maps_are_cached_separately) {
  int corner[3] = {-1, 2, 0};
  auto* at = reinterpret_cast<void*>(what.address);
  auto im2col = [&](CUtensorMap* out, cuuint32_t rank) {
    return cuTensorMapEncodeIm2col(
        out, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, at, what.sizes,
        what.strides, corner, corner, 32, 8, what.steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  auto wide = [&](CUtensorMap* out) {
    return cuTensorMapEncodeIm2colWide(
        out, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, at, what.sizes, what.strides,
        -1, -1, 32, 8, what.steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUtensorMap other{};
  what.rank = 4;
  REQUIRE_OK(what.encode(&map));
  REQUIRE_OK(im2col(&other, 4));
  BOOST_TEST(map.opaque[1] == 0U);
  BOOST_TEST(other.opaque[1] == 1U);
  BOOST_TEST(static_cast<std::int64_t>(other.opaque[2]) == -1);
  BOOST_TEST(other.opaque[3] == 2U);
  REQUIRE_OK(wide(&other));
  BOOST_TEST(other.opaque[1] == 2U);
  CHECK_CODE(im2col(&other, 2), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(asked() == before + 3);
}

BOOST_AUTO_TEST_CASE(a_device_without_tensor_maps_reports_it) {
  CUcontext second = nullptr;
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&second, 1));
  REQUIRE_OK(cuCtxSetCurrent(second));
  int has = -1;
  REQUIRE_OK(cuDeviceGetAttribute(
      &has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1));
  BOOST_TEST(has == 0);
  CHECK_CODE(what.encode(&map), CUDA_ERROR_NOT_SUPPORTED);
  BOOST_TEST(asked() == before);
  REQUIRE_OK(cuCtxSetCurrent(primary));
  REQUIRE_OK(cuDevicePrimaryCtxRelease(1));
  REQUIRE_OK(cuCtxSetCurrent(nullptr));
  CHECK_CODE(what.encode(&map), CUDA_ERROR_INVALID_CONTEXT);
}

BOOST_AUTO_TEST_CASE(threads_make_maps_concurrently) {
  std::vector<std::thread> all;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&, context = primary] {
      cuCtxSetCurrent(context);
      auto mine = what;
      for (int i = 0; i < 200; ++i) {
        mine.address = what.address + static_cast<unsigned>(i % 50) * 16U;
        CUtensorMap out{};
        if (mine.encode(&out) != CUDA_SUCCESS ||
            address_in(out) != mine.address)
          ++wrong;
      }
    });
  for (auto& t : all)
    t.join();
  BOOST_TEST(wrong == 0);
  // A map is requested more than once only by concurrent calls.
  BOOST_TEST(asked() >= before + 50);
  BOOST_TEST(asked() <= before + 4 * 50);
}

BOOST_AUTO_TEST_CASE(a_launch_sends_a_map_unchanged) {
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  const char* ptx = ".version 8.0\n.target sm_75\n.address_size 64\n";
  REQUIRE_OK(cuModuleLoadData(&module, ptx));
  REQUIRE_OK(cuModuleGetFunction(&f, module, "mapped"));
  for (std::size_t i = 0; i < 16; ++i)
    map.opaque[i] = 0x0123456789abcdefU * (i + 1);
  int first = 7;
  std::uint64_t last = what.address;
  void* arguments[] = {&first, &map, &last};
  REQUIRE_OK(
      cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  REQUIRE_OK(cuCtxSynchronize());
  auto seen = fake().launches().back();
  BOOST_TEST_REQUIRE(seen.parameters.size() == 200U);
  BOOST_TEST(std::memcmp(seen.parameters.data() + 64, &map, sizeof map) == 0);
  BOOST_TEST(std::memcmp(seen.parameters.data(), &first, 4) == 0);
  BOOST_TEST(std::memcmp(seen.parameters.data() + 192, &last, 8) == 0);
  REQUIRE_OK(cuModuleUnload(module));
}

BOOST_AUTO_TEST_SUITE_END()
