// What a program sets of contexts, functions and pointers is told again, acts,
// and ends with its object.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/catalogue/calls.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>

// Programs still make calls that CUDA deprecates.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using namespace vgpu;
using namespace vgpu::test;

namespace {

int seen(call::number which) {
  return fake().counts()[static_cast<std::uint16_t>(which)];
}

/// Makes a context of its own, which is current until the end.
struct own_context {
  explicit own_context(unsigned flags = 0) {
    REQUIRE_OK(cuCtxCreate_v4(&handle, nullptr, flags, 0));
  }
  ~own_context() { cuCtxDestroy(handle); }
  CUcontext handle = nullptr;
};

unsigned current_flags() {
  unsigned out = 99;
  REQUIRE_OK(cuCtxGetFlags(&out));
  return out;
}

unsigned primary_flags() {
  unsigned out = 99;
  int active = 0;
  REQUIRE_OK(cuDevicePrimaryCtxGetState(0, &out, &active));
  return out;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(setters, driver_fixture)

// -- contexts
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_context_keeps_its_flags) {
  own_context x{CU_CTX_SCHED_YIELD};
  BOOST_TEST(current_flags() == CU_CTX_SCHED_YIELD);
  REQUIRE_OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
  BOOST_TEST(current_flags() == CU_CTX_SCHED_BLOCKING_SYNC);
  BOOST_TEST(primary_flags() == 0U);
}

BOOST_AUTO_TEST_CASE(a_primary_context_keeps_its_flags) {
  REQUIRE_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
  BOOST_TEST(primary_flags() == CU_CTX_SCHED_SPIN);
  BOOST_TEST(current_flags() == CU_CTX_SCHED_SPIN);
  REQUIRE_OK(cuDevicePrimaryCtxSetFlags(0, 0));
  BOOST_TEST(primary_flags() == 0U);
}

BOOST_AUTO_TEST_CASE(a_context_waits_in_one_way) {
  constexpr unsigned two = CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD;
  CUcontext none = nullptr;
  CHECK_CODE(cuCtxCreate_v4(&none, nullptr, two, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDevicePrimaryCtxSetFlags(0, two), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuCtxSetFlags(two), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuCtxSetFlags(0x100), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(current_flags() == 0U);
}

BOOST_AUTO_TEST_CASE(a_cache_configuration_belongs_to_its_context) {
  own_context x;
  CUfunc_cache got{};
  REQUIRE_OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
  REQUIRE_OK(cuCtxGetCacheConfig(&got));
  BOOST_TEST(got == CU_FUNC_CACHE_PREFER_L1);
  own_context y;
  REQUIRE_OK(cuCtxGetCacheConfig(&got));
  BOOST_TEST(got == CU_FUNC_CACHE_PREFER_NONE);
}

BOOST_AUTO_TEST_CASE(banks_of_shared_memory_have_a_fixed_size) {
  CUsharedconfig got{};
  REQUIRE_OK(
      cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
  REQUIRE_OK(cuCtxGetSharedMemConfig(&got));
  BOOST_TEST(got == CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  CHECK_CODE(cuCtxSetSharedMemConfig(unknown_value<CUsharedconfig>(3)),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_context_lives_until_its_last_detach) {
  CUcontext x = nullptr, same = nullptr;
  REQUIRE_OK(cuCtxCreate_v4(&x, nullptr, 0, 0));
  REQUIRE_OK(cuCtxAttach(&same, 0));
  BOOST_TEST(same == x);
  REQUIRE_OK(cuCtxDetach(x));
  REQUIRE_OK(cuCtxSynchronize());
  REQUIRE_OK(cuCtxDetach(x));
  CHECK_CODE(cuCtxSetCurrent(x), CUDA_ERROR_INVALID_CONTEXT);
}

BOOST_AUTO_TEST_CASE(a_reset_of_the_persisting_cache_reaches_the_device) {
  auto before = seen(call::number::cache_reset);
  REQUIRE_OK(cuCtxResetPersistingL2Cache());
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(seen(call::number::cache_reset) == before + 1);
}

// -- functions
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_function_is_launched_in_its_own_context) {
  own_context x;
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
  REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
  auto launch = [&] {
    return cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  };
  REQUIRE_OK(launch());
  REQUIRE_OK(cuCtxPushCurrent(primary));
  CHECK_CODE(launch(), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuCtxPopCurrent(nullptr));
  REQUIRE_OK(launch());
}

BOOST_AUTO_TEST_CASE(a_functions_attributes_are_told_again) {
  own_context x;
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
  REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
  constexpr auto carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  int got = 0;
  REQUIRE_OK(cuFuncSetAttribute(none, carveout, 40));
  REQUIRE_OK(cuFuncGetAttribute(&got, carveout, none));
  BOOST_TEST(got == 40);
  CHECK_CODE(cuFuncSetAttribute(none, carveout, 101), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuFuncSetAttribute(none, CU_FUNC_ATTRIBUTE_NUM_REGS, 10),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuFuncGetAttribute(&got, carveout, none));
  BOOST_TEST(got == 40);
}

BOOST_AUTO_TEST_CASE(hints_for_functions_are_checked) {
  own_context x;
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
  REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
  REQUIRE_OK(cuFuncSetCacheConfig(none, CU_FUNC_CACHE_PREFER_SHARED));
  REQUIRE_OK(
      cuFuncSetSharedMemConfig(none, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
  CHECK_CODE(cuFuncSetSharedMemConfig(none, unknown_value<CUsharedconfig>(3)),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuKernelSetCacheConfig(nullptr, CU_FUNC_CACHE_PREFER_L1, 0),
             CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_SUITE_END()
