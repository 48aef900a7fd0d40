// The book of a device's memory, which program and worker keep alike.
#include "schema/base/memory_account.hpp"

#include <boost/test/unit_test.hpp>

#include <iterator>
#include <map>
#include <random>
#include <set>

using namespace vgpu;

namespace {

constexpr std::uint64_t g = granule_bytes;
constexpr device_address base = first_window;

} // namespace

BOOST_AUTO_TEST_SUITE(memory_accounts)

BOOST_AUTO_TEST_CASE(small_ranges_share_a_granule) {
  memory_account book;
  BOOST_TEST(book.cost(base, 1) == g);
  BOOST_TEST(book.insert(base, 512) == g);
  BOOST_TEST(book.cost(base + 512, 512) == 0U);
  BOOST_TEST(book.insert(base + 512, g - 512) == 0U);
  BOOST_TEST(book.used() == g);
  BOOST_TEST(book.erase(base, 512) == 0U);
  BOOST_TEST(book.erase(base + 512, g - 512) == g);
  BOOST_TEST(book.used() == 0U);
}

BOOST_AUTO_TEST_CASE(a_range_costs_each_granule_that_it_touches) {
  memory_account book;
  BOOST_TEST(book.insert(base, g) == g);
  BOOST_TEST(book.insert(base + g, 2 * g + 1) == 3 * g);
  BOOST_TEST(book.insert(base + 10 * g - 1, 2) == 2 * g);
  BOOST_TEST(book.insert(base + 10 * g + 1, g - 1) == 0U);
  BOOST_TEST(book.insert(base + 12 * g + 5, 1) == g);
  BOOST_TEST(book.used() == 7 * g);
}

// A brute-force count of touched granules gives the same number.
BOOST_AUTO_TEST_CASE(any_order_of_ranges_counts_the_touched_granules) {
  std::mt19937 random{11};
  memory_account book;
  std::map<device_address, std::uint64_t> live;
  auto touched = [&] {
    std::set<std::uint64_t> out;
    for (auto [at, bytes] : live)
      for (auto i = at / g; i <= (at + bytes - 1) / g; ++i)
        out.insert(i);
    return out.size() * g;
  };
  for (int i = 0; i < 3000; ++i) {
    auto at = base + random() % (40 * g);
    if (random() % 4 == 0)
      at = at / g * g;
    auto bytes = random() % 3 == 0 ? (1 + random() % 3) * g
                                   : 1 + random() % (random() % 2 ? g : 3000);
    auto next = live.lower_bound(at);
    auto before = next == live.begin() ? live.end() : std::prev(next);
    auto overlaps =
        (next != live.end() && next->first < at + bytes) ||
        (before != live.end() && before->first + before->second > at);
    if (!overlaps) {
      auto then = book.used();
      auto cost = book.cost(at, bytes);
      BOOST_REQUIRE(book.insert(at, bytes) == cost);
      BOOST_REQUIRE(book.used() == then + cost);
      live.emplace(at, bytes);
    } else {
      auto victim = next != live.end() ? next : before;
      book.erase(victim->first, victim->second);
      live.erase(victim);
    }
    BOOST_REQUIRE(book.used() == touched());
  }
}

BOOST_AUTO_TEST_CASE(variables_count_together) {
  memory_account book;
  BOOST_TEST(book.cost_of_variables(16) == g);
  book.add_variables(16);
  BOOST_TEST(book.cost_of_variables(16) == 0U);
  book.add_variables(16);
  BOOST_TEST(book.used() == g);
  BOOST_TEST(book.cost_of_variables(g) == g);
  book.set_heap(4 * g);
  BOOST_TEST(book.used() == 5 * g);
  book.set_heap(0);
  book.remove_variables(32);
  BOOST_TEST(book.used() == 0U);
}

BOOST_AUTO_TEST_CASE(a_book_beyond_its_quota_has_room_for_nothing) {
  memory_account book;
  book.add(3 * g);
  BOOST_TEST(book.has_room(g, 4 * g));
  BOOST_TEST(!book.has_room(g + 1, 4 * g));
  BOOST_TEST(book.has_room(0, 3 * g));
  BOOST_TEST(!book.has_room(0, 2 * g));
  book.remove(g);
  BOOST_TEST(book.has_room(0, 2 * g));
}

BOOST_AUTO_TEST_SUITE_END()
