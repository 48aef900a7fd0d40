// A board that a hostile worker writes to, and its lock.
#include "actors/compute/share_board.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>

using namespace vgpu;

namespace {

/// A board as its node has it, and as two workers have it.
struct board_fixture {
  std::shared_ptr<share_board> node = *share_board::create();
  std::shared_ptr<share_board> hostile = opened();
  std::shared_ptr<share_board> honest = opened();

  std::shared_ptr<share_board> opened() const {
    auto out =
        share_board::open(unique_fd{::fcntl(node->fd(), F_DUPFD_CLOEXEC, 0)});
    BOOST_REQUIRE(out.ok());
    return *out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(boards_of_hostile_workers, board_fixture)

BOOST_AUTO_TEST_CASE(seats_that_do_not_exist_are_never_used) {
  BOOST_TEST(node->sit({}) == 0);
  BOOST_TEST(node->sit({}) == 1);
  hostile->locked([](policy::share_table& table) {
    // The numbers of seats come first.
    std::memset(reinterpret_cast<char*>(&table.turns), 0x7f, 16);
    table.seated = 1'000'000;
  });
  for (auto* board : {&node, &honest})
    (*board)->locked([](policy::share_table& table) {
      BOOST_TEST(table.seated == policy::most_seats);
      BOOST_TEST(table.turns.holder() == policy::no_seat);
    });
  // The node goes on.
  node->stand(1);
  BOOST_TEST(node->sit({}) == 1);
}

BOOST_AUTO_TEST_CASE(unknown_policies_are_never_used) {
  hostile->locked([](policy::share_table& table) {
    std::memset(reinterpret_cast<char*>(&table.rules.policy), 0x7f,
                sizeof(table.rules.policy));
  });
  BOOST_TEST((node->rules().policy == policy::share_rules{}.policy));
  BOOST_TEST(node->sit({}) == 0);
}

BOOST_AUTO_TEST_CASE(each_process_sees_the_changes_of_the_others) {
  BOOST_TEST(node->sit({.share = 0.5}) == 0);
  BOOST_TEST(honest->look(0).claim.share == 0.5);
  honest->locked([](policy::share_table& table) { table.seats[0].used = 77; });
  BOOST_TEST(node->look(0).used == 77u);
  node->stand(0);
  BOOST_TEST(honest->look(0).taken == 0u);
  BOOST_TEST(honest->look(0).used == 0u);
}

BOOST_AUTO_TEST_CASE(one_thread_at_a_time_has_the_lock) {
  constexpr auto steps = 2'000;
  node->sit({});
  std::vector<std::thread> all;
  for (auto* board : {&node, &hostile, &honest, &honest})
    all.emplace_back([board] {
      for (auto i = 0; i < steps; ++i)
        (*board)->locked(
            [](policy::share_table& table) { ++table.seats[0].used; });
    });
  for (auto& x : all)
    x.join();
  BOOST_TEST(node->look(0).used == 4u * steps);
}

BOOST_AUTO_TEST_SUITE_END()
