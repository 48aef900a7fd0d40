// What a program sets of contexts and streams: it is told again, it reaches the
// device, and a reset takes it back.
#include "tests/unit/interposer/driver_fixture.hpp"

using namespace vgpu;
using namespace vgpu::test;

namespace {

int count(call::number which) {
  return fake().counts()[static_cast<std::uint16_t>(which)];
}

std::size_t limit(CUlimit which) {
  std::size_t out = 0;
  REQUIRE_OK(cuCtxGetLimit(&out, which));
  return out;
}

struct settings_fixture : driver_fixture {
  settings_fixture() {
    REQUIRE_OK(cuDevicePrimaryCtxReset(0));
    renew();
  }
  /// Makes the primary context active and current again.
  static void renew() {
    CUcontext again = nullptr;
    REQUIRE_OK(cuDevicePrimaryCtxRetain(&again, 0));
    REQUIRE_OK(cuCtxSetCurrent(again));
    REQUIRE_OK(cuDevicePrimaryCtxRelease(0));
  }
};

struct window_of_stream {
  window_of_stream() {
    REQUIRE_OK(cuMemAlloc(&memory, 1 << 16));
    REQUIRE_OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    auto& w = value.accessPolicyWindow;
    w.base_ptr = reinterpret_cast<void*>(memory);
    w.num_bytes = 4096;
    w.hitRatio = 0.5F;
    w.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    w.missProp = CU_ACCESS_PROPERTY_STREAMING;
  }
  ~window_of_stream() {
    cuStreamDestroy(a);
    cuStreamDestroy(b);
    cuMemFree(memory);
  }
  CUresult set() {
    return cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                &value);
  }

  CUdeviceptr memory = 0;
  CUstream a = nullptr, b = nullptr;
  CUstreamAttrValue value{};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(settings, settings_fixture)

// -- limits
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_limit_goes_to_the_device_once) {
  auto before = count(call::number::limit_set);
  REQUIRE_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  REQUIRE_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  BOOST_TEST(limit(CU_LIMIT_STACK_SIZE) == 4096U);
  BOOST_TEST(count(call::number::limit_set) == before + 1);
}

BOOST_AUTO_TEST_CASE(a_new_context_begins_with_the_first_limits) {
  REQUIRE_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
  CUcontext own = nullptr;
  REQUIRE_OK(cuCtxCreate_v4(&own, nullptr, 0, 0));
  BOOST_TEST(limit(CU_LIMIT_STACK_SIZE) == 1024U);
  auto before = count(call::number::limit_set);
  // The device already has the larger stack of the other context.
  REQUIRE_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
  BOOST_TEST(limit(CU_LIMIT_STACK_SIZE) == 2048U);
  BOOST_TEST(count(call::number::limit_set) == before);
  auto resets = count(call::number::limits_reset);
  REQUIRE_OK(cuCtxDestroy(own));
  BOOST_TEST(count(call::number::limits_reset) == resets);
  REQUIRE_OK(cuCtxSetCurrent(primary));
  BOOST_TEST(limit(CU_LIMIT_STACK_SIZE) == 8192U);
}

BOOST_AUTO_TEST_CASE(a_reset_brings_back_the_first_limits) {
  REQUIRE_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 26));
  auto resets = count(call::number::limits_reset);
  REQUIRE_OK(cuDevicePrimaryCtxReset(0));
  renew();
  BOOST_TEST(limit(CU_LIMIT_MALLOC_HEAP_SIZE) == 8388608U);
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(count(call::number::limits_reset) == resets + 1);
}

BOOST_AUTO_TEST_CASE(a_limit_is_rounded_as_a_driver_does) {
  struct {
    CUlimit which;
    std::size_t asked, told;
  } constexpr cases[] = {
      {CU_LIMIT_STACK_SIZE, 0, 0},
      {CU_LIMIT_STACK_SIZE, 1025, 1040},
      {CU_LIMIT_STACK_SIZE, 1040, 1040},
      {CU_LIMIT_PRINTF_FIFO_SIZE, 0, 524288},
      {CU_LIMIT_PRINTF_FIFO_SIZE, 1000001, 1000192},
      {CU_LIMIT_MALLOC_HEAP_SIZE, 1, 4194304},
      {CU_LIMIT_MALLOC_HEAP_SIZE, 8388609, 8454144},
      {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1, 32},
      {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 100000, 100000},
      {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 33, 33},
      {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0, 0},
  };
  for (auto [which, asked, told] : cases) {
    REQUIRE_OK(cuCtxSetLimit(which, asked));
    BOOST_TEST(limit(which) == told);
  }
}

BOOST_AUTO_TEST_CASE(flags_of_a_primary_context_end_with_it) {
  REQUIRE_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
  CHECK_CODE(cuDevicePrimaryCtxSetFlags(0, CU_CTX_MAP_HOST),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDevicePrimaryCtxSetFlags(0, 0x1c), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuDevicePrimaryCtxReset(0));
  unsigned flags = 99;
  int active = 0;
  REQUIRE_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  BOOST_TEST(flags == 0U);
  renew();
}

// -- attributes of streams
// -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_window_is_kept_told_sent_and_copied) {
  window_of_stream x;
  auto before = count(call::number::stream_window);
  REQUIRE_OK(x.set());
  REQUIRE_OK(x.set());
  REQUIRE_OK(cuStreamCopyAttributes(x.b, x.a));
  CUstreamAttrValue got{};
  REQUIRE_OK(cuStreamGetAttribute(x.b, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                  &got));
  BOOST_TEST(got.accessPolicyWindow.base_ptr ==
             reinterpret_cast<void*>(x.memory));
  BOOST_TEST(got.accessPolicyWindow.num_bytes == 4096U);
  BOOST_TEST(got.accessPolicyWindow.hitRatio == 0.5F);
  BOOST_TEST(got.accessPolicyWindow.hitProp == CU_ACCESS_PROPERTY_PERSISTING);
  BOOST_TEST(got.accessPolicyWindow.missProp == CU_ACCESS_PROPERTY_STREAMING);
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(count(call::number::stream_window) == before + 2);
}

BOOST_AUTO_TEST_CASE(a_bad_window_is_refused_and_the_old_one_stays) {
  window_of_stream x;
  REQUIRE_OK(x.set());
  auto good = x.value;
  x.value.accessPolicyWindow.hitRatio = 1.5F;
  CHECK_CODE(x.set(), CUDA_ERROR_INVALID_VALUE);
  x.value = good;
  x.value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_PERSISTING;
  CHECK_CODE(x.set(), CUDA_ERROR_INVALID_VALUE);
  x.value = good;
  x.value.accessPolicyWindow.num_bytes = std::size_t{1} << 40;
  CHECK_CODE(x.set(), CUDA_ERROR_INVALID_VALUE);
  CUstreamAttrValue got{};
  REQUIRE_OK(cuStreamGetAttribute(x.a, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                  &got));
  BOOST_TEST(got.accessPolicyWindow.num_bytes == 4096U);
}

BOOST_AUTO_TEST_CASE(other_attributes_are_told_again) {
  window_of_stream x;
  CUstreamAttrValue value{}, got{};
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  REQUIRE_OK(cuStreamSetAttribute(
      x.a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  REQUIRE_OK(cuStreamGetAttribute(
      x.a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
  BOOST_TEST(got.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC);
  value.syncPolicy = unknown_value<CUsynchronizationPolicy>(9);
  CHECK_CODE(cuStreamSetAttribute(
                 x.a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(
      cuStreamGetAttribute(x.b, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &got));
  BOOST_TEST(got.memSyncDomainMap.default_ == 0);
  BOOST_TEST(got.memSyncDomainMap.remote == 1);
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  REQUIRE_OK(
      cuStreamSetAttribute(x.b, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
  REQUIRE_OK(
      cuStreamGetAttribute(x.b, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &got));
  BOOST_TEST(got.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
  CHECK_CODE(cuStreamSetAttribute(x.a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
