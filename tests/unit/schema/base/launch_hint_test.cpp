#include "schema/base/launch_hint.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;

namespace {

std::vector<std::byte> block(std::size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{7});
}

} // namespace

BOOST_AUTO_TEST_SUITE(launch_hints)

BOOST_AUTO_TEST_CASE(a_block_of_any_length_has_its_hints_behind_it) {
  const launch_hint hints[] = {{8, 0, {1, 2, 3, 4}}, {1, 0, {5, 6, 7, 8}}};
  for (std::size_t bytes : {0U, 1U, 8U, 33U}) {
    auto whole = with_hints(block(bytes), hints);
    std::span<const std::byte> parameters;
    std::vector<launch_hint> got;
    BOOST_REQUIRE(take_hints(whole, parameters, got));
    BOOST_TEST(parameters.size() == bytes);
    BOOST_REQUIRE(got.size() == 2U);
    BOOST_TEST(got[0].attribute == 8U);
    BOOST_TEST(got[1].value[3] == 8U);
  }
}

BOOST_AUTO_TEST_CASE(malformed_bytes_are_refused) {
  const launch_hint hints[] = {{8, 0, {1, 2, 3, 4}}};
  auto whole = with_hints(block(5), hints);
  std::span<const std::byte> parameters;
  std::vector<launch_hint> got;
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    BOOST_TEST(!take_hints(std::span{whole}.first(bytes), parameters, got),
               "the first " << bytes << " bytes");
  auto wrong = whole;
  wrong[wrong.size() - 1] = std::byte{0xff}; // the number of hints
  BOOST_TEST(!take_hints(wrong, parameters, got));
  wrong = whole;
  wrong[wrong.size() - 5] = std::byte{0xff}; // the parameters' size
  BOOST_TEST(!take_hints(wrong, parameters, got));
}

BOOST_AUTO_TEST_SUITE_END()
