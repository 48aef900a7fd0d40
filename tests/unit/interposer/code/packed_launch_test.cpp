// Launches of CUDA 3, whose functions keep their shape and parameters.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <cstring>

// cuda.h marks these calls as deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct packed_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr, mixed = nullptr;

  packed_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuModuleGetFunction(&mixed, module, "mixed"));
  }
  ~packed_fixture() { cuModuleUnload(module); }

  seen_launch newest() {
    BOOST_TEST(cuCtxSynchronize() == CUDA_SUCCESS);
    return fake().launches().back();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(packed_launches, packed_fixture)

BOOST_AUTO_TEST_CASE(a_launch_takes_what_its_function_keeps) {
  REQUIRE_OK(cuFuncSetBlockShape(mixed, 8, 4, 2));
  REQUIRE_OK(cuFuncSetSharedSize(mixed, 96));
  char name[] = "forty";
  void* pointer = name;
  REQUIRE_OK(cuParamSetv(mixed, 8, name, sizeof(name)));
  REQUIRE_OK(cuParamSetv(mixed, 0x30, &pointer, sizeof(pointer)));
  REQUIRE_OK(cuParamSeti(mixed, 0x38, 77));
  REQUIRE_OK(cuParamSetSize(mixed, 0x3c));
  REQUIRE_OK(cuLaunchGrid(mixed, 5, 3));
  auto seen = newest();
  BOOST_TEST(seen.call.grid.x == 5U);
  BOOST_TEST(seen.call.grid.y == 3U);
  BOOST_TEST(seen.call.grid.z == 1U);
  BOOST_TEST(seen.call.block.x == 8U);
  BOOST_TEST(seen.call.block.z == 2U);
  BOOST_TEST(seen.call.dynamic_shared == 96U);
  BOOST_REQUIRE(seen.parameters.size() == 0x3cU);
  unsigned last = 0;
  std::memcpy(&last, seen.parameters.data() + 0x38, sizeof(last));
  BOOST_TEST(last == 77U);
  REQUIRE_OK(cuParamSetf(mixed, 0x38, 1.5f));
  REQUIRE_OK(cuLaunch(mixed));
  seen = newest();
  float number = 0;
  std::memcpy(&number, seen.parameters.data() + 0x38, sizeof(number));
  BOOST_TEST(number == 1.5f);
  BOOST_TEST(seen.call.grid.x == 1U);
}

BOOST_AUTO_TEST_CASE(a_launch_may_name_a_stream) {
  CUstream stream = nullptr;
  REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuFuncSetBlockShape(none, 1, 1, 1));
  REQUIRE_OK(cuLaunchGridAsync(none, 2, 1, stream));
  BOOST_TEST(newest().call.stream.id.value != legacy_stream.value);
  REQUIRE_OK(cuStreamDestroy(stream));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  CHECK_CODE(cuLaunch(none), CUDA_ERROR_INVALID_VALUE); // no shape yet
  CHECK_CODE(cuFuncSetBlockShape(none, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuFuncSetBlockShape(none, 1, -1, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuFuncSetBlockShape(nullptr, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuFuncSetBlockShape(none, 1, 1, 1));
  CHECK_CODE(cuLaunchGrid(none, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLaunchGrid(none, 1, -1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuParamSeti(none, -4, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuParamSeti(none, 1 << 30, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuParamSetv(none, 0, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuParamSetSize(none, 1 << 20), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuLaunch(none));
}

BOOST_AUTO_TEST_SUITE_END()
