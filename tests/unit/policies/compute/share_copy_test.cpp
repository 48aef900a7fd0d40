// A process's copy of a table that a hostile worker wrote.
#include "policies/compute/share.hpp"
#include "policies/compute/share_copy.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

using namespace vgpu::policy;

namespace {

constexpr share_ns present = 1'000'000'000;

struct hostile_table {
  std::unique_ptr<share_table> shared = std::make_unique<share_table>();
  std::unique_ptr<share_copy> honest = std::make_unique<share_copy>();

  void fill(int byte) {
    std::memset(static_cast<void*>(shared.get()), byte, sizeof(*shared));
    shared->seated = 2;
    for (auto i : {0u, 1u})
      shared->seats[i].taken = 1;
  }
};

bool is_bounded(double x) {
  return std::abs(x) <= static_cast<double>(farthest);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(copies_of_hostile_tables, hostile_table)

BOOST_AUTO_TEST_CASE(times_and_numbers_are_bounded) {
  for (auto byte : {0x7f, 0x80, 0xff, 0x01}) {
    fill(byte);
    auto& table = honest->take(*shared);
    for (auto i : {0u, 1u}) {
      const auto& x = table.seats[i];
      BOOST_TEST(std::abs(x.credited_at) <= farthest);
      BOOST_TEST(std::abs(x.heard_at) <= farthest);
      for (auto real : {x.weight, x.virtual_time, x.credit, x.brought,
                        x.claim.share, x.claim.limit})
        BOOST_TEST(is_bounded(real));
    }
    BOOST_TEST(is_bounded(table.virtual_now));
    BOOST_TEST(table.rules.quantum > 0);
    BOOST_TEST(table.rules.quantum <= farthest);
    BOOST_TEST(std::abs(table.turns.until()) <= farthest);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_number_counts_as_none) {
  for (auto x : {std::numeric_limits<double>::quiet_NaN(),
                 std::numeric_limits<double>::infinity(), 1e300, -1e300}) {
    fill(0);
    shared->seats[0].credit = x;
    BOOST_TEST(honest->take(*shared).seats[0].credit == 0);
  }
}

BOOST_AUTO_TEST_CASE(honest_numbers_stay) {
  auto& seat = shared->seats[0];
  shared->seated = 1;
  seat.credit = -5e6;
  seat.heard_at = present;
  auto& table = honest->take(*shared);
  BOOST_TEST(table.seats[0].credit == -5e6);
  BOOST_TEST(table.seats[0].heard_at == present);
  BOOST_TEST(table.rules.quantum == share_rules{}.quantum);
}

BOOST_AUTO_TEST_CASE(honest_sessions_go_on) {
  for (auto byte : {0x7f, 0x80, 0xff, 0x01}) {
    fill(byte);
    auto& table = honest->take(*shared);
    want(table, 1, present);
    (void)arbitrate(table, present);
    set_claim(table, 1, {}, present);
    stand(table, 1);
    (void)arbitrate(table, present + 1);
    honest->give(*shared);
  }
}

BOOST_AUTO_TEST_CASE(threads_that_do_not_exist_keep_nobody_waiting) {
  for (auto byte : {0x7f, 0xff}) {
    fill(byte);
    auto& table = honest->take(*shared);
    for (auto i : {0u, 1u}) {
      BOOST_TEST(table.seats[i].threads.waiting() <= most_threads);
      BOOST_TEST(table.seats[i].threads.running() <= most_threads);
      BOOST_TEST(table.seats[i].let_in <= most_threads);
    }
    thread_outcome out;
    let_in(table, present, out);
    for (auto i : {0u, 1u})
      BOOST_TEST(out.woken[i] <= most_threads);
  }
}

BOOST_AUTO_TEST_SUITE_END()
