#include "schema/base/jit_settings.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;

namespace {

jit_settings some() {
  return {{{0, 32}, {7, 2}}, {{"table", 0x600000001000}, {"x", 8}}};
}

} // namespace

BOOST_AUTO_TEST_SUITE(jit_settings_values)

BOOST_AUTO_TEST_CASE(settings_arrive_as_they_were) {
  auto got = decode_jit_settings(encode(some()));
  BOOST_REQUIRE(got.ok());
  BOOST_TEST((*got == some()));
  BOOST_TEST(got->option(7).value() == 2U);
  BOOST_TEST(!got->option(3).has_value());
}

BOOST_AUTO_TEST_CASE(no_settings_are_no_bytes) {
  BOOST_TEST(encode({}).empty());
  auto got = decode_jit_settings({});
  BOOST_REQUIRE(got.ok());
  BOOST_TEST(got->empty());
}

BOOST_AUTO_TEST_CASE(bytes_that_end_early_are_refused) {
  auto whole = encode(some());
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes)
    BOOST_TEST(!decode_jit_settings(std::span{whole}.first(bytes)).ok(),
               "the first " << bytes << " bytes of " << whole.size());
}

BOOST_AUTO_TEST_CASE(impossible_numbers_are_refused) {
  auto whole = encode(some());
  for (std::size_t at : {0U, 4U, 32U, 36U}) {
    auto wrong = whole;
    wrong[at + 3] = std::byte{0xff};
    BOOST_TEST(!decode_jit_settings(wrong).ok(), "the number at " << at);
  }
}

BOOST_AUTO_TEST_SUITE_END()
