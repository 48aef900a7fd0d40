// The binary interface of CUPTI, against NVIDIA's headers where they are.
#include "devices/nvidia/profiler/activity_types.hpp"

#include <boost/test/unit_test.hpp>

#include <array>

#if __has_include(<cupti.h>)
#include <cupti.h>
#endif

namespace activity = vgpu::device::nvidia::activity;

BOOST_AUTO_TEST_SUITE(activity_types)

BOOST_AUTO_TEST_CASE(a_record_of_another_kind_is_none) {
  std::array<std::byte, 256> bytes{};
  std::uint32_t driver = 4;
  std::memcpy(bytes.data(), &driver, sizeof driver);
  BOOST_TEST(!activity::read_record(bytes.data()));
}

BOOST_AUTO_TEST_CASE(a_record_may_have_no_times) {
  BOOST_TEST((activity::record{5, 7, 1}.has_times()));
  BOOST_TEST((activity::record{5, 5, 1}.has_times()));
  BOOST_TEST((!activity::record{0, 0, 1}.has_times()));
  BOOST_TEST((!activity::record{5, 0, 1}.has_times()));
}

#if __has_include(<cupti.h>)
template <class Record>
void check_record(std::uint32_t of) {
  Record x{};
  std::memcpy(&x, &of, sizeof of);
  x.start = 11;
  x.end = 22;
  x.correlationId = 33;
  auto read = activity::read_record(&x);
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->began == 11u);
  BOOST_TEST(read->ended == 22u);
  BOOST_TEST(read->correlation == 33u);
}

BOOST_AUTO_TEST_CASE(records_are_those_of_the_headers) {
  BOOST_TEST(+activity::kernels == +CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  BOOST_TEST(+activity::copies == +CUPTI_ACTIVITY_KIND_MEMCPY);
  BOOST_TEST(+activity::fills == +CUPTI_ACTIVITY_KIND_MEMSET);
  BOOST_TEST(+activity::copies_between_devices == +CUPTI_ACTIVITY_KIND_MEMCPY2);
  check_record<CUpti_ActivityKernel9>(activity::kernels); // CUPTI 12
  check_record<CUpti_ActivityMemcpy5>(activity::copies);
  check_record<CUpti_ActivityMemcpyPtoP4>(activity::copies_between_devices);
  check_record<CUpti_ActivityMemset4>(activity::fills);
#if CUPTI_API_VERSION >= 130000
  check_record<CUpti_ActivityKernel10>(activity::kernels);
  check_record<CUpti_ActivityMemcpy6>(activity::copies);
#endif
}

BOOST_AUTO_TEST_CASE(callbacks_are_those_of_the_headers) {
  static_assert(sizeof(activity::call_data) == sizeof(CUpti_CallbackData));
  static_assert(offsetof(activity::call_data, outcome) ==
                offsetof(CUpti_CallbackData, functionReturnValue));
  static_assert(offsetof(activity::call_data, correlation) ==
                offsetof(CUpti_CallbackData, correlationId));
  static_assert(activity::driver_calls == CUPTI_CB_DOMAIN_DRIVER_API);
  static_assert(activity::forced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  static_assert(activity::calls[0] == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  static_assert(activity::calls[1] == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  static_assert(activity::calls[2] == CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync);
  static_assert(activity::calls[3] ==
                CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2);
  static_assert(activity::calls[4] ==
                CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2);
  static_assert(activity::calls[5] ==
                CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2);
  static_assert(activity::calls[6] == CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async);
  static_assert(activity::calls[7] == CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async);
  static_assert(activity::calls[8] == CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async);
  static_assert(activity::calls[9] ==
                CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async);
  static_assert(activity::calls[10] ==
                CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async);
  static_assert(activity::calls[11] ==
                CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
