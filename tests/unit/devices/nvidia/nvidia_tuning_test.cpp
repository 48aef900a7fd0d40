// Limits and access-policy windows, which go to the driver.
#include "devices/interface/tuning_unit.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct with_tuning : with_device {
  static std::uint64_t limit(CUlimit which) {
    return call<std::uint64_t(int)>("fake_limit")(which);
  }
  tuning_unit& tuning = dynamic_cast<tuning_unit&>(*dev);
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(nvidia_tuning, with_tuning)

BOOST_AUTO_TEST_CASE(limits_reach_the_driver_and_come_back_at_a_reset) {
  BOOST_TEST(tuning.set_limit(CU_LIMIT_STACK_SIZE, 4096).ok());
  BOOST_TEST(tuning.set_limit(CU_LIMIT_STACK_SIZE, 8192).ok());
  BOOST_TEST(limit(CU_LIMIT_STACK_SIZE) == 8192u);
  BOOST_TEST(!tuning.reset_limits().has_value());
  BOOST_TEST(limit(CU_LIMIT_STACK_SIZE) == 77u); // as the driver began
}

BOOST_AUTO_TEST_CASE(the_drivers_refusal_is_told_and_not_sticky) {
  auto got =
      tuning.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, std::uint64_t{1} << 40);
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(cuda_code(got.why()) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(dev->error() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_window_reaches_the_drivers_stream) {
  BOOST_TEST(dev->create_stream({4}, true, 0).ok());
  CUaccessPolicyWindow window{};
  window.base_ptr = reinterpret_cast<void*>(base);
  window.num_bytes = 4096;
  window.hitRatio = 0.25F;
  window.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
  BOOST_TEST(tuning.set_window({4}, window).ok());
  void* at = nullptr;
  float ratio = 0;
  BOOST_TEST(call<std::uint64_t(void**, float*)>("fake_window")(&at, &ratio) ==
             4096u);
  BOOST_TEST(at == window.base_ptr);
  BOOST_TEST(ratio == 0.25F);
  BOOST_TEST(!tuning.set_window({5}, window).ok());
  BOOST_TEST(tuning.reset_cache().ok());
}

BOOST_AUTO_TEST_SUITE_END()
