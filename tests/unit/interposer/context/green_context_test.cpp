// Green contexts: handles, streams and events of a part of a device.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <cstring>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct green_fixture : driver_fixture {
  CUdevResource whole{};
  CUdevResourceDesc part = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext as = nullptr;

  green_fixture() {
    CUdevResource cut{};
    unsigned n = 1;
    REQUIRE_OK(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE_OK(cuDevSmResourceSplitByCount(&cut, &n, &whole, nullptr, 0, 16));
    REQUIRE_OK(cuDevResourceGenerateDesc(&part, &cut, 1));
    REQUIRE_OK(cuGreenCtxCreate(&green, part, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    REQUIRE_OK(cuCtxFromGreenCtx(&as, green));
  }
  ~green_fixture() { cuGreenCtxDestroy(green); }

  CUstream stream() const {
    CUstream out = nullptr;
    REQUIRE_OK(cuGreenCtxStreamCreate(&out, green, CU_STREAM_NON_BLOCKING, 0));
    return out;
  }
  static int count(call::number which) {
    return fake().counts()[static_cast<std::uint16_t>(which)];
  }
  static CUcontext current() {
    CUcontext out = nullptr;
    REQUIRE_OK(cuCtxGetCurrent(&out));
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(green_contexts, green_fixture)

BOOST_AUTO_TEST_CASE(a_device_is_cut_into_equal_parts) {
  BOOST_TEST(whole.sm.smCount == 132U);
  BOOST_TEST(whole.sm.minSmPartitionSize == 8U);
  BOOST_TEST(whole.sm.smCoscheduledAlignment == 8U);
  std::array<CUdevResource, 20> cut{};
  CUdevResource rest{};
  unsigned n = 20;
  REQUIRE_OK(cuDevSmResourceSplitByCount(cut.data(), &n, &whole, &rest, 0, 20));
  BOOST_TEST(n == 5U);
  BOOST_TEST(cut[4].sm.smCount == 24U);
  BOOST_TEST(rest.sm.smCount == 12U);
  // The remainder cannot be split again.
  CHECK_CODE(cuDevSmResourceSplitByCount(cut.data(), &n, &rest, nullptr, 0, 1),
             CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  BOOST_TEST(rest.sm.minSmPartitionSize == 0U);
  n = 1;
  REQUIRE_OK(
      cuDevSmResourceSplitByCount(cut.data(), &n, &whole, &rest, 0, 130));
  BOOST_TEST(cut[0].sm.smCount == 132U);
  BOOST_TEST(rest.type == CU_DEV_RESOURCE_TYPE_INVALID);
  n = 99;
  REQUIRE_OK(cuDevSmResourceSplitByCount(nullptr, &n, &whole, nullptr, 1, 3));
  BOOST_TEST(n == 33U);
  CHECK_CODE(cuDevSmResourceSplitByCount(nullptr, &n, &whole, nullptr, 3, 8),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDevSmResourceSplitByCount(nullptr, &n, &whole, nullptr, 0, 133),
             CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  n = 3;
  REQUIRE_OK(cuDevSmResourceSplitByCount(cut.data(), &n, &whole, &rest, 0, 1));
  BOOST_TEST(n == 3U);
  BOOST_TEST(cut[0].sm.smCount == 8U);
  BOOST_TEST(rest.sm.smCount == 108U);
}

BOOST_AUTO_TEST_CASE(parts_are_combined_and_none_counts_twice) {
  std::array<CUdevResource, 3> a{};
  CUdevResource rest{};
  unsigned n = 3;
  REQUIRE_OK(cuDevSmResourceSplitByCount(a.data(), &n, &whole, &rest, 0, 16));
  auto together = [](std::vector<CUdevResource> parts) {
    CUdevResourceDesc d = nullptr;
    REQUIRE_OK(cuDevResourceGenerateDesc(&d, parts.data(),
                                         static_cast<unsigned>(parts.size())));
    CUgreenCtx made = nullptr;
    REQUIRE_OK(cuGreenCtxCreate(&made, d, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CUdevResource has{};
    REQUIRE_OK(cuGreenCtxGetDevResource(made, &has, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE_OK(cuGreenCtxDestroy(made));
    return has.sm.smCount;
  };
  BOOST_TEST(together({a[0], a[1]}) == 32U);
  BOOST_TEST(together({a[2], rest, a[0]}) == 16U + 16U + 84U);
  BOOST_TEST(together({a[0], a[0]}) == 16U);
  BOOST_TEST(together({a[1], whole}) == 132U);
  CUdevResourceDesc d = nullptr;
  CUdevResource made_up{}, other{};
  CHECK_CODE(cuDevResourceGenerateDesc(&d, &made_up, 1),
             CUDA_ERROR_INVALID_RESOURCE_TYPE);
  made_up.type = CU_DEV_RESOURCE_TYPE_SM;
  CHECK_CODE(cuDevResourceGenerateDesc(&d, &made_up, 1),
             CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  REQUIRE_OK(cuDeviceGetDevResource(1, &other, CU_DEV_RESOURCE_TYPE_SM));
  a[1] = other;
  CHECK_CODE(cuDevResourceGenerateDesc(&d, a.data(), 2),
             CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

BOOST_AUTO_TEST_CASE(a_green_context_can_be_current) {
  REQUIRE_OK(cuCtxPushCurrent(as));
  BOOST_TEST(current() == as);
  BOOST_TEST(as != primary);
  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 64));
  CUcontext owner = nullptr;
  REQUIRE_OK(
      cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  BOOST_TEST(owner == primary);
  unsigned long long id = 0, its = 0;
  REQUIRE_OK(cuGreenCtxGetId(nullptr, &id));
  REQUIRE_OK(cuGreenCtxGetId(green, &its));
  BOOST_TEST(id == its);
  CUcontext popped = nullptr;
  REQUIRE_OK(cuCtxPopCurrent(&popped));
  BOOST_TEST(popped == as);
  BOOST_TEST(current() == primary);
  REQUIRE_OK(cuMemFree(memory));
}

BOOST_AUTO_TEST_CASE(primary_kernels_run_in_green_streams) {
  const char* ptx = ".version 8.0\n.target sm_75\n.address_size 64\n";
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  REQUIRE_OK(cuCtxPushCurrent(as));
  REQUIRE_OK(cuModuleLoadData(&module, ptx));
  REQUIRE_OK(cuModuleGetFunction(&f, module, "none"));
  auto s = stream();
  for (CUstream in : {s, CUstream{nullptr}})
    REQUIRE_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, in, nullptr, nullptr));
  REQUIRE_OK(cuCtxPopCurrent(nullptr));
  REQUIRE_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr));
  REQUIRE_OK(cuModuleUnload(module));
  REQUIRE_OK(cuStreamDestroy(s));
}

BOOST_AUTO_TEST_CASE(green_streams_are_non_blocking) {
  REQUIRE_OK(cuCtxPushCurrent(as));
  CUstream s = nullptr;
  REQUIRE_OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
  unsigned flags = 0;
  REQUIRE_OK(cuStreamGetFlags(s, &flags));
  BOOST_TEST(flags == unsigned{CU_STREAM_NON_BLOCKING});
  unsigned long long mine = 0, primarys = 0;
  REQUIRE_OK(cuStreamGetId(nullptr, &mine));
  CHECK_CODE(cuStreamSynchronize(CU_STREAM_PER_THREAD),
             CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuCtxPopCurrent(nullptr));
  REQUIRE_OK(cuStreamGetId(nullptr, &primarys));
  BOOST_TEST(mine != primarys);
  REQUIRE_OK(cuStreamDestroy(s));
}

BOOST_AUTO_TEST_CASE(a_stream_reports_its_green_context) {
  auto s = stream();
  CUgreenCtx whose = nullptr;
  CUcontext where = nullptr;
  REQUIRE_OK(cuStreamGetGreenCtx(s, &whose));
  BOOST_TEST(whose == green);
  REQUIRE_OK(cuStreamGetCtx(s, &where));
  BOOST_TEST(where == as);
  REQUIRE_OK(cuStreamGetCtx_v2(s, &where, &whose));
  BOOST_TEST(where == primary);
  REQUIRE_OK(cuStreamGetGreenCtx(nullptr, &whose));
  BOOST_TEST((whose == nullptr));
  REQUIRE_OK(cuStreamDestroy(s));
}

BOOST_AUTO_TEST_CASE(a_recorded_event_waits_for_all_green_streams) {
  auto a = stream(), b = stream(), idle = stream();
  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 64));
  REQUIRE_OK(cuMemsetD8Async(memory, 1, 64, a));
  REQUIRE_OK(cuMemsetD8Async(memory, 1, 64, b));
  CUevent e = nullptr;
  REQUIRE_OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  auto records = count(call::number::event_record);
  auto waits = count(call::number::stream_wait);
  REQUIRE_OK(cuGreenCtxRecordEvent(green, e));
  REQUIRE_OK(cuEventSynchronize(e));
  // One record for each stream with work, and one for the stream that joins
  // them.
  BOOST_TEST(count(call::number::event_record) - records == 3);
  BOOST_TEST(count(call::number::stream_wait) - waits == 2);
  CHECK_CODE(cuEventQuery(e), CUDA_SUCCESS);
  for (auto s : {a, b, idle})
    REQUIRE_OK(cuStreamDestroy(s));
  REQUIRE_OK(cuEventDestroy(e));
  REQUIRE_OK(cuMemFree(memory));
}

BOOST_AUTO_TEST_CASE(present_and_later_streams_wait_for_an_event) {
  auto a = stream();
  CUstream elsewhere = nullptr;
  REQUIRE_OK(cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING));
  CUevent e = nullptr;
  REQUIRE_OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  REQUIRE_OK(cuEventRecord(e, elsewhere));
  auto waits = count(call::number::stream_wait);
  REQUIRE_OK(cuGreenCtxWaitEvent(green, e));
  REQUIRE_OK(cuStreamSynchronize(a));
  // The gate, the default stream and the one existing stream wait.
  BOOST_TEST(count(call::number::stream_wait) - waits == 3);
  auto late = stream();
  REQUIRE_OK(cuStreamSynchronize(late));
  BOOST_TEST(count(call::number::stream_wait) - waits == 4);
  // A stream outside the green context does not wait.
  CUstream other = nullptr;
  REQUIRE_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuStreamSynchronize(other));
  BOOST_TEST(count(call::number::stream_wait) - waits == 4);
  for (auto s : {a, late, other, elsewhere})
    REQUIRE_OK(cuStreamDestroy(s));
  REQUIRE_OK(cuEventDestroy(e));
}

BOOST_AUTO_TEST_CASE(a_captured_stream_blocks_recording) {
  auto s = stream();
  CUevent e = nullptr;
  REQUIRE_OK(cuEventCreate(&e, 0));
  REQUIRE_OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CODE(cuGreenCtxRecordEvent(green, e),
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  CHECK_CODE(cuStreamEndCapture(s, &graph),
             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE_OK(cuStreamDestroy(s));
  REQUIRE_OK(cuEventDestroy(e));
}

BOOST_AUTO_TEST_CASE(a_green_context_retains_the_primary_context) {
  CUdevResource second{};
  CUdevResourceDesc d = nullptr;
  REQUIRE_OK(cuDeviceGetDevResource(1, &second, CU_DEV_RESOURCE_TYPE_SM));
  REQUIRE_OK(cuDevResourceGenerateDesc(&d, &second, 1));
  CUgreenCtx other = nullptr;
  CHECK_CODE(cuGreenCtxCreate(&other, d, 0, CU_GREEN_CTX_DEFAULT_STREAM),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGreenCtxCreate(&other, d, 1, CU_GREEN_CTX_DEFAULT_STREAM));
  unsigned flags = 0;
  int active = 0;
  REQUIRE_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  BOOST_TEST(active == 1);
  CHECK_CODE(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_NOT_PERMITTED);
  CHECK_CODE(cuDevicePrimaryCtxReset(1), CUDA_ERROR_NOT_PERMITTED);
  REQUIRE_OK(cuGreenCtxDestroy(other));
  REQUIRE_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  BOOST_TEST(active == 0);
}

BOOST_AUTO_TEST_CASE(remains_of_a_destroyed_green_context_report_it) {
  auto s = stream();
  REQUIRE_OK(cuCtxPushCurrent(as));
  REQUIRE_OK(cuGreenCtxDestroy(green));
  CUdeviceptr memory = 0;
  CHECK_CODE(cuMemAlloc(&memory, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_CODE(cuStreamQuery(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_CODE(cuStreamDestroy(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_CODE(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_CODE(cuGreenCtxDestroy(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE_OK(cuCtxSetCurrent(primary));
  CHECK_CODE(cuGreenCtxDestroy(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE_OK(cuMemAlloc(&memory, 64));
  REQUIRE_OK(cuMemFree(memory));
}

BOOST_AUTO_TEST_SUITE_END()
