#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <cstring>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct launch_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr, mixed = nullptr;

  launch_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuModuleGetFunction(&mixed, module, "mixed"));
  }
  ~launch_fixture() { cuModuleUnload(module); }

  CUresult shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                 unsigned by, unsigned bz, unsigned shared = 0) {
    return cuLaunchKernel(none, gx, gy, gz, bx, by, bz, shared, nullptr,
                          nullptr, nullptr);
  }
  seen_launch last() {
    BOOST_TEST(cuCtxSynchronize() == CUDA_SUCCESS);
    return fake().launches().back();
  }
};

struct arguments {
  char c = 'x';
  short s = 300;
  std::array<char, 40> bytes{1, 2, 3};
  void* p = &c;
  int i = -5;
  std::array<void*, 5> list = {&c, &s, &bytes, &p, &i};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(launches, launch_fixture)

BOOST_AUTO_TEST_CASE(parameters_are_packed_at_their_offsets) {
  arguments a;
  REQUIRE_OK(cuLaunchKernel(mixed, 7, 6, 5, 4, 3, 2, 100, nullptr,
                            a.list.data(), nullptr));
  auto seen = last();
  BOOST_TEST(seen.call.grid.x == 7U);
  BOOST_TEST(seen.call.grid.z == 5U);
  BOOST_TEST(seen.call.block.y == 3U);
  BOOST_TEST(seen.call.dynamic_shared == 100U);
  BOOST_TEST(seen.call.kernel == 1U);
  BOOST_TEST(seen.call.stream.id.value == legacy_stream.value);
  BOOST_REQUIRE(seen.parameters.size() == 0x3cU);
  const auto* b = seen.parameters.data();
  BOOST_TEST(std::to_integer<int>(b[0]) == 'x');
  BOOST_TEST(std::memcmp(b + 2, &a.s, 2) == 0);
  BOOST_TEST(std::memcmp(b + 8, &a.bytes, 40) == 0);
  BOOST_TEST(std::memcmp(b + 0x30, &a.p, 8) == 0);
  BOOST_TEST(std::memcmp(b + 0x38, &a.i, 4) == 0);
  BOOST_TEST(std::to_integer<int>(b[1]) == 0);
}

BOOST_AUTO_TEST_CASE(a_packed_block_is_sent_unchanged) {
  std::array<unsigned char, 64> block{};
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<unsigned char>(i);
  auto launch = [&](std::size_t size) {
    std::array<void*, 5> extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, block.data(),
                                  CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                                  CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                          extra.data());
  };
  REQUIRE_OK(launch(0x3c));
  auto seen = last();
  BOOST_REQUIRE(seen.parameters.size() == 0x3cU);
  BOOST_TEST(std::memcmp(seen.parameters.data(), block.data(), 0x3c) == 0);
  REQUIRE_OK(launch(64));
  REQUIRE_OK(launch(16));
  CHECK_CODE(launch(0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(launch(1024), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

BOOST_AUTO_TEST_CASE(launch_shapes_are_checked_in_the_program) {
  REQUIRE_OK(shape(1, 1, 1, 512, 1, 1));
  CHECK_CODE(shape(1, 1, 1, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 1, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(0, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 70000, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 70000, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 1, 1, 1, 1, 1U << 20), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 1, 1, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(shape(1, 1, 1, 1, 1, 1, 49152));
  // The kernel was compiled for fewer threads.
  CHECK_CODE(shape(1, 1, 1, 513, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 1, 32, 32, 1), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(arguments_are_checked_in_the_program) {
  arguments a;
  std::array<void*, 1> end = {CU_LAUNCH_PARAM_END};
  CHECK_CODE(
      cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
      CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(
      cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
      CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, a.list.data(),
                            end.data()),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0,
                            reinterpret_cast<CUstream>(&a), nullptr, nullptr),
             CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(more_shared_memory_needs_an_attribute) {
  CHECK_CODE(cuFuncSetAttribute(none,
                                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                1 << 20),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(shape(1, 1, 1, 1, 1, 1, 100000), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuFuncSetAttribute(
      none, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  REQUIRE_OK(shape(1, 1, 1, 1, 1, 1, 100000));
}

BOOST_AUTO_TEST_CASE(a_cluster_attribute_reaches_the_launch) {
  std::array<CUlaunchAttribute, 2> attributes{};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {2, 1, 1};
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  CUlaunchConfig config{};
  config.gridDimX = 4;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes.data();
  config.numAttrs = 2;
  REQUIRE_OK(cuLaunchKernelEx(&config, none, nullptr, nullptr));
  BOOST_TEST(last().call.cluster.x == 2U);
  config.gridDimX = 3;
  CHECK_CODE(cuLaunchKernelEx(&config, none, nullptr, nullptr),
             CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

BOOST_AUTO_TEST_CASE(cluster_shapes_are_checked) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = 32;
  config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  auto code = [&](unsigned x, unsigned y) {
    attribute.value.clusterDim = {x, y, 1};
    return cuLaunchKernelEx(&config, none, nullptr, nullptr);
  };
  REQUIRE_OK(code(4, 2));
  CHECK_CODE(code(0, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK_CODE(code(4, 4), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK_CODE(code(1u << 31, 2), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  REQUIRE_OK(cuFuncSetAttribute(
      none, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  REQUIRE_OK(code(4, 4));
  CHECK_CODE(code(8, 4), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  // These are the cluster sizes that the kernel requires.
  for (auto key : {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                   CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
                   CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH})
    REQUIRE_OK(cuFuncSetAttribute(
        none, key, key == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ? 2 : 1));
  REQUIRE_OK(code(2, 1));
  CHECK_CODE(code(4, 4), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK_CODE(shape(3, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  REQUIRE_OK(shape(4, 1, 1, 1, 1, 1));
  BOOST_TEST(last().call.cluster.x == 0U); // the launch asks for none
}

BOOST_AUTO_TEST_CASE(a_cooperative_launch_fits_the_device_or_is_refused) {
  REQUIRE_OK(cuLaunchCooperativeKernel(none, 132 * 4, 1, 1, 512, 1, 1, 0,
                                       nullptr, nullptr));
  BOOST_TEST(last().call.flags == call::launch::cooperative);
  CHECK_CODE(cuLaunchCooperativeKernel(none, 132 * 4 + 1, 1, 1, 512, 1, 1, 0,
                                       nullptr, nullptr),
             CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

BOOST_AUTO_TEST_CASE(launches_do_not_wait) {
  fake().pause();
  for (int i = 0; i < 1000; ++i)
    REQUIRE_OK(shape(1, 1, 1, 1, 1, 1));
  fake().resume();
  REQUIRE_OK(cuCtxSynchronize());
}

BOOST_AUTO_TEST_SUITE_END()
