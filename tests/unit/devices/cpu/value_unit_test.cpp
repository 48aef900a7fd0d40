// Streams that wait for a value in memory.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/interface/value_unit.hpp"
#include "schema/base/cuda_fault.hpp"

#include <optional>

namespace vgpu::test {

namespace {

constexpr auto waiting = stream_id{10};
constexpr auto other = stream_id{11};

struct values : device_fixture {
  values() {
    BOOST_REQUIRE(dev->create_stream(waiting, true, 0).ok());
    BOOST_REQUIRE(dev->create_stream(other, true, 0).ok());
    word = memory(64);
    mark = memory(4);
  }

  status wait(std::uint64_t value, value_test how, std::uint32_t bytes = 4) {
    auto& unit = dynamic_cast<device::value_unit&>(*dev);
    return unit.enqueue_wait(waiting, {word, value, bytes, how});
  }
  void write(std::uint32_t value, std::uint64_t offset = 0) {
    BOOST_REQUIRE(
        dev->enqueue_fill(other, {word + offset}, value, 4, {1}).ok());
  }
  /// Returns the completion of the waiting stream.
  outcome& end() {
    ends.emplace();
    dev->when_done(waiting, ends->tell());
    return *ends;
  }

  device_address word = 0;
  device_address mark = 0;
  std::optional<outcome> ends;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(values_in_memory, values)

BOOST_AUTO_TEST_CASE(a_value_already_in_memory_ends_the_wait) {
  write(5);
  BOOST_REQUIRE(wait(5, value_test::equal).ok());
  BOOST_TEST(end().wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_wait_stops_its_own_stream_alone) {
  BOOST_REQUIRE(wait(3, value_test::reached).ok());
  BOOST_REQUIRE(dev->enqueue_fill(waiting, {mark}, 7, 4, {1}).ok());
  auto& ended = end();
  write(2);
  auto elsewhere = outcome{};
  dev->when_done(other, elsewhere.tell());
  BOOST_TEST(elsewhere.wait() == CUDA_SUCCESS);
  BOOST_TEST(!ended.told());
  BOOST_TEST(*reinterpret_cast<std::uint32_t*>(mark) == 0u);
  write(4);
  BOOST_TEST(ended.wait() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<std::uint32_t*>(mark) == 7u);
}

BOOST_AUTO_TEST_CASE(a_wait_may_compare_eight_bytes) {
  BOOST_REQUIRE(wait(std::uint64_t{1} << 32, value_test::equal, 8).ok());
  auto& ended = end();
  write(1); // the lower half
  write(1, 4);
  BOOST_TEST(!ended.told());
  write(0);
  BOOST_TEST(ended.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(addresses_without_memory_are_refused) {
  auto& unit = dynamic_cast<device::value_unit&>(*dev);
  auto no_memory = word + (std::uint64_t{1} << 34);
  BOOST_TEST(cuda_code(unit.enqueue_wait(waiting, {no_memory})) ==
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(an_error_ends_the_wait) {
  BOOST_REQUIRE(wait(1, value_test::equal).ok());
  auto& ended = end();
  dev->inject(injected_fault::ecc);
  BOOST_TEST(ended.wait() == CUDA_ERROR_ECC_UNCORRECTABLE);
}

BOOST_AUTO_TEST_CASE(a_device_can_end_while_a_stream_waits) {
  BOOST_REQUIRE(wait(1, value_test::equal).ok());
  auto& ended = end();
  dev.reset();
  BOOST_TEST(ended.wait() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(words_are_compared_by_the_test_and_width) {
  auto met = [](value_test how, std::uint64_t now, std::uint64_t value,
                std::uint32_t bytes) {
    return awaited_value{8, value, bytes, how}.met_by(now);
  };
  BOOST_TEST(met(value_test::reached, 5, 5, 4));
  BOOST_TEST(met(value_test::reached, 1, 0xffffffff, 4));
  BOOST_TEST(!met(value_test::reached, 1, 0xffffffff, 8));
  BOOST_TEST(!met(value_test::reached, 0xffffffff, 1, 4));
  BOOST_TEST(met(value_test::any_set, 6, 3, 4));
  BOOST_TEST(!met(value_test::any_set, 4, 3, 4));
  BOOST_TEST(!met(value_test::any_clear, 1, 0xfffffffe, 4));
  BOOST_TEST(met(value_test::any_clear, 1, 0xfffffffe, 8));
  BOOST_TEST(!met(value_test::any_clear, 1, ~std::uint64_t{1}, 8));
  BOOST_TEST(!(awaited_value{6, 0, 4}).is_sound());
  BOOST_TEST(!(awaited_value{12, 0, 8}).is_sound());
  BOOST_TEST(!(awaited_value{8, 0, 2}).is_sound());
  BOOST_TEST((awaited_value{8, 0, 8}).is_sound());
}

} // namespace vgpu::test
