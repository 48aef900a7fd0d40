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

template <class T>
T told(CUpointer_attribute which, const void* at) {
  T out{};
  REQUIRE_OK(
      cuPointerGetAttribute(&out, which, reinterpret_cast<CUdeviceptr>(at)));
  return out;
}

struct pages {
  static constexpr std::size_t bytes = 8192;
  void* at = std::aligned_alloc(4096, bytes);
  pages() { REQUIRE_OK(cuMemHostRegister(at, bytes, 0)); }
  ~pages() {
    cuMemHostUnregister(at);
    std::free(at);
  }
};

CUresult set_synchronous(CUdeviceptr at, unsigned on) {
  return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(setters, driver_fixture)

// -- contexts
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_context_keeps_its_flags) {
  own_context x{CU_CTX_SCHED_YIELD};
  BOOST_TEST(current_flags() == (CU_CTX_SCHED_YIELD | CU_CTX_MAP_HOST));
  REQUIRE_OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
  BOOST_TEST(current_flags() == (CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST));
  BOOST_TEST(primary_flags() == 0U);
}

BOOST_AUTO_TEST_CASE(a_primary_context_keeps_its_flags) {
  REQUIRE_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
  BOOST_TEST(primary_flags() == CU_CTX_SCHED_SPIN);
  BOOST_TEST(current_flags() == (CU_CTX_SCHED_SPIN | CU_CTX_MAP_HOST));
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
  BOOST_TEST(current_flags() == CU_CTX_MAP_HOST);
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

// -- pools
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(pools_keep_what_is_set) {
  CUmemPoolProps what{};
  what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  REQUIRE_OK(cuMemPoolCreate(&pool, &what));
  std::uint64_t threshold = std::uint64_t{5} << 20, got = 0;
  REQUIRE_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                   &threshold));
  REQUIRE_OK(
      cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &got));
  BOOST_TEST(got == threshold);
  CUmemAccessDesc access{};
  access.location = what.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE_OK(cuMemPoolSetAccess(pool, &access, 1));
  CUmemAccess_flags flags{};
  REQUIRE_OK(cuMemPoolGetAccess(&flags, pool, &access.location));
  BOOST_TEST(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemoryPool before = nullptr, now = nullptr;
  REQUIRE_OK(
      cuMemGetMemPool(&before, &what.location, CU_MEM_ALLOCATION_TYPE_PINNED));
  REQUIRE_OK(
      cuMemSetMemPool(&what.location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
  REQUIRE_OK(
      cuMemGetMemPool(&now, &what.location, CU_MEM_ALLOCATION_TYPE_PINNED));
  BOOST_TEST(now == pool);
  REQUIRE_OK(
      cuMemSetMemPool(&what.location, CU_MEM_ALLOCATION_TYPE_PINNED, before));
  REQUIRE_OK(cuMemPoolDestroy(pool));
}

// -- pointers
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(synchronous_memory_is_told_and_ends_with_its_memory) {
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 4096));
  auto told_at = [](CUdeviceptr at) {
    return told<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                          reinterpret_cast<const void*>(at));
  };
  BOOST_TEST(told_at(p) == 0U);
  REQUIRE_OK(set_synchronous(p + 100, 1));
  BOOST_TEST(told_at(p) == 1U);
  BOOST_TEST(told_at(p + 4095) == 1U);
  REQUIRE_OK(set_synchronous(p, 0));
  BOOST_TEST(told_at(p + 100) == 0U);
  REQUIRE_OK(set_synchronous(p, 1));
  REQUIRE_OK(cuMemFree(p));
  REQUIRE_OK(cuCtxSynchronize());
  CUdeviceptr next = 0;
  REQUIRE_OK(cuMemAlloc(&next, 4096));
  BOOST_TEST(told_at(next) == 0U);
  REQUIRE_OK(cuMemFree(next));
  int local = 0;
  CHECK_CODE(set_synchronous(reinterpret_cast<CUdeviceptr>(&local), 1),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuPointerSetAttribute(&local, CU_POINTER_ATTRIBUTE_CONTEXT, p),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(fills_and_copies_of_synchronous_memory_are_waited_for) {
  CUdeviceptr p = 0, q = 0;
  REQUIRE_OK(cuMemAlloc(&p, 4096));
  REQUIRE_OK(cuMemAlloc(&q, 4096));
  REQUIRE_OK(set_synchronous(p, 1));
  auto fills = seen(call::number::fill);
  REQUIRE_OK(cuMemsetD8(p, 1, 4096));
  BOOST_TEST(seen(call::number::fill) == fills + 1);
  auto copies = seen(call::number::copy);
  REQUIRE_OK(cuMemcpyDtoD(p, q, 4096));
  REQUIRE_OK(cuMemcpyDtoD(q, p, 4096));
  BOOST_TEST(seen(call::number::copy) == copies + 2);
  REQUIRE_OK(cuMemFree(p));
  REQUIRE_OK(cuMemFree(q));
}

BOOST_AUTO_TEST_CASE(a_context_may_wait_for_all_fills) {
  own_context x{CU_CTX_SYNC_MEMOPS};
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 4096));
  auto fills = seen(call::number::fill);
  REQUIRE_OK(cuMemsetD8(p, 1, 4096));
  BOOST_TEST(seen(call::number::fill) == fills + 1);
}

BOOST_AUTO_TEST_CASE(registered_memory_has_attributes) {
  pages x;
  const auto* middle = static_cast<const char*>(x.at) + 5000;
  BOOST_TEST(told<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, middle) ==
             unsigned{CU_MEMORYTYPE_HOST});
  BOOST_TEST(told<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, middle) == middle);
  BOOST_TEST(told<void*>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, middle) ==
             x.at);
  BOOST_TEST(told<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, middle) ==
             pages::bytes);
  BOOST_TEST(told<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, middle) == primary);
  BOOST_TEST(told<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, middle) == 0);
  BOOST_TEST(told<unsigned>(CU_POINTER_ATTRIBUTE_MAPPED, middle) == 1U);
  BOOST_TEST(told<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, middle) == 0U);
  pages y;
  BOOST_TEST(told<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, x.at) !=
             told<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, y.at));
}

BOOST_AUTO_TEST_CASE(registered_memory_serves_as_device_memory) {
  pages x;
  auto* bytes = static_cast<unsigned char*>(x.at);
  auto address = reinterpret_cast<CUdeviceptr>(x.at);
  REQUIRE_OK(cuMemsetD8(address, 7, pages::bytes));
  BOOST_TEST(int{bytes[0]} == 7);
  BOOST_TEST(int{bytes[pages::bytes - 1]} == 7);
  REQUIRE_OK(cuMemsetD16(address, 0x0102, 4));
  BOOST_TEST(int{bytes[6]} == 2);
  BOOST_TEST(int{bytes[7]} == 1);
  BOOST_TEST(int{bytes[8]} == 7);
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 64));
  REQUIRE_OK(cuMemcpyDtoD(p, address, 64));
  REQUIRE_OK(cuMemcpyDtoD(address + 100, p, 16));
  BOOST_TEST(int{bytes[100]} == 2);
  BOOST_TEST(int{bytes[115]} == 7);
  REQUIRE_OK(cuMemFree(p));
  CHECK_CODE(cuMemsetD8(address, 7, pages::bytes + 1),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(memory_belongs_to_the_context_that_made_it) {
  own_context x;
  CUdeviceptr p = 0, pooled = 0;
  void* pinned = nullptr;
  REQUIRE_OK(cuMemAlloc(&p, 16));
  REQUIRE_OK(cuMemHostAlloc(&pinned, 16, 0));
  REQUIRE_OK(cuMemAllocAsync(&pooled, 16, nullptr));
  auto context_of = [](const void* at) {
    return told<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, at);
  };
  BOOST_TEST(context_of(reinterpret_cast<const void*>(p)) == x.handle);
  BOOST_TEST(context_of(pinned) == x.handle);
  BOOST_TEST(context_of(reinterpret_cast<const void*>(pooled)) == nullptr);
  REQUIRE_OK(cuMemFreeAsync(pooled, nullptr));
}

BOOST_AUTO_TEST_CASE(tokens_of_device_memory_are_told) {
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 16));
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens{};
  CHECK_CODE(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p),
             CUDA_SUCCESS);
  REQUIRE_OK(cuMemFree(p));
}

BOOST_AUTO_TEST_CASE(a_context_that_ends_unregisters_its_memory) {
  alignas(4096) static std::array<char, 4096> page{};
  {
    own_context x;
    REQUIRE_OK(cuMemHostRegister(page.data(), page.size(), 0));
  }
  REQUIRE_OK(cuCtxSetCurrent(primary));
  REQUIRE_OK(cuMemHostRegister(page.data(), page.size(), 0));
  REQUIRE_OK(cuMemHostUnregister(page.data()));
}

BOOST_AUTO_TEST_SUITE_END()
