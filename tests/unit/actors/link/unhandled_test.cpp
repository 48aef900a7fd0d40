#include "actors/link/unhandled.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace vgpu;

BOOST_AUTO_TEST_SUITE(unhandled_messages)

BOOST_AUTO_TEST_CASE(messages_count_until_they_are_dropped) {
  unhandled passed;
  std::vector<std::shared_ptr<const int>> held;
  while (held.size() < unhandled::most) {
    BOOST_TEST(!passed.is_full());
    held.push_back(passed.count(7, 8));
  }
  BOOST_TEST(passed.is_full());
  BOOST_TEST(*held.back() == 7);
  auto copy = held.back();
  held.pop_back();
  BOOST_TEST(passed.is_full());
  copy.reset();
  BOOST_TEST(!passed.is_full());
}

BOOST_AUTO_TEST_CASE(long_messages_fill_it_sooner) {
  unhandled passed;
  auto one = passed.count(std::string{"first"}, unhandled::most_bytes);
  BOOST_TEST(!passed.is_full());
  auto two = passed.count(std::string{"second"}, 1);
  BOOST_TEST(passed.is_full());
  one.reset();
  BOOST_TEST(!passed.is_full());
}

BOOST_AUTO_TEST_CASE(messages_may_outlive_it) {
  std::shared_ptr<const int> held;
  {
    unhandled passed;
    held = passed.count(7, 8);
  }
  BOOST_TEST(*held == 7);
}

BOOST_AUTO_TEST_SUITE_END()
