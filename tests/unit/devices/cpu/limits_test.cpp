// Limits of kernels: the heap for malloc and the stack for calls.
#include "devices/interface/tuning_unit.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

namespace vgpu::test {

namespace {

struct with_limits : device_fixture {
  with_limits() { load(read_file(DEVICE_CODE "/features.ptx")); }

  device::tuning_unit& limits = dynamic_cast<device::tuning_unit&>(*dev);
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(limits_of_kernels, with_limits)

BOOST_AUTO_TEST_CASE(the_heap_has_the_size_that_was_set_before_its_use) {
  auto p = memory(12);
  auto before = dev->beside().variables.value();
  auto heap = limits.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20);
  BOOST_REQUIRE(heap.ok() && heap->has_value());
  BOOST_TEST((*heap)->bytes == 32u << 20);
  BOOST_TEST(dev->beside().variables.value() == before + (24u << 20));
  BOOST_TEST(run("too_much", {1}, {1}, arguments{p}) == CUDA_SUCCESS);
  BOOST_TEST(download<int>(p, 3) == (std::vector<int>{1, 1, 1}));
  auto again = limits.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 20);
  BOOST_REQUIRE(!again.ok());
  BOOST_TEST(cuda_code(again.why()) == CUDA_ERROR_INVALID_VALUE);
  // The same size again is no other heap.
  BOOST_TEST(limits.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20).ok());
}

BOOST_AUTO_TEST_CASE(a_reset_brings_back_the_first_limits) {
  auto p = memory(12);
  BOOST_TEST(limits.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20).ok());
  BOOST_TEST(run("too_much", {1}, {1}, arguments{p}) == CUDA_SUCCESS);
  BOOST_TEST(dev->unload_module(module).ok());
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  auto gone = limits.reset_limits();
  BOOST_REQUIRE(gone.has_value());
  BOOST_TEST(gone->bytes == 0u);
  load(read_file(DEVICE_CODE "/features.ptx"));
  BOOST_TEST(run("too_much", {1}, {1}, arguments{p}) == CUDA_SUCCESS);
  BOOST_TEST(download<int>(p, 3) == (std::vector<int>{1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(modules_lie_at_the_same_place_whatever_the_heap) {
  auto variable = [](const device::module_info& x) {
    for (auto& global : x.globals)
      if (global.name != "the device heap")
        return global.address;
    return device_address{0};
  };
  auto here = variable(info);
  dev.reset(); // a window has one device at a time
  device_fixture other;
  auto& others = dynamic_cast<device::tuning_unit&>(*other.dev);
  BOOST_TEST(others.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20).ok());
  auto there = other.load(read_file(DEVICE_CODE "/features.ptx"));
  BOOST_TEST(variable(there) == here);
}

BOOST_AUTO_TEST_CASE(a_heap_beyond_the_quota_is_refused_and_the_old_one_stays) {
  auto p = memory(12);
  auto heap =
      limits.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, std::uint64_t{1} << 40);
  BOOST_REQUIRE(!heap.ok());
  BOOST_TEST(cuda_code(heap.why()) == CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(run("too_much", {1}, {1}, arguments{p}) == CUDA_SUCCESS);
  BOOST_TEST(download<int>(p, 3) == (std::vector<int>{1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(calls_go_as_deep_as_the_stack_allows) {
  auto out = memory(32 * sizeof(int));
  BOOST_TEST(limits.set_limit(CU_LIMIT_STACK_SIZE, 256 << 10).ok());
  BOOST_TEST(run("deep", {1}, {32}, arguments{out, int{500}}) == CUDA_SUCCESS);
  BOOST_TEST(!limits.set_limit(CU_LIMIT_STACK_SIZE, 1 << 30).ok());
  limits.reset_limits();
  BOOST_TEST(run("deep", {1}, {32}, arguments{out, int{500}}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
