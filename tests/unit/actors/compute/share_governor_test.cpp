// Threads of two sessions at one board.
#include "actors/compute/share_governor.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>

using namespace vgpu;
using namespace std::chrono_literals;
using policy::share_ns;

namespace {

struct two_sessions {
  std::shared_ptr<share_board> board = *share_board::create();
  std::atomic<share_ns> now{1'000'000'000};
  std::int32_t seats[2];
  std::unique_ptr<share_governor> of[2];

  two_sessions() {
    policy::share_rules rules;
    rules.processors = 1;
    board->set_rules(rules);
    for (auto i = 0; i < 2; ++i) {
      seats[i] = board->sit({});
      of[i] = std::make_unique<share_governor>(board, seats[i],
                                               [this] { return now.load(); });
    }
  }

  /// Lets the first session run far ahead while the second runs. Returns its
  /// wait.
  std::future<bool> first_waits() {
    BOOST_REQUIRE(of[0]->begin());
    BOOST_REQUIRE(of[1]->begin()); // neither is ahead yet
    BOOST_REQUIRE(!of[0]->go_on(100ms));
    return std::async(std::launch::async, [this] { return of[0]->wait(); });
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(share_governors, two_sessions)

BOOST_AUTO_TEST_CASE(a_session_alone_is_governed_only_by_a_limit) {
  board->stand(seats[1]);
  BOOST_TEST(!of[0]->governs());
  board->set_claim(seats[0], {.limit = 0.5});
  BOOST_TEST(of[0]->governs());
}

BOOST_AUTO_TEST_CASE(a_wait_ends_when_a_processor_is_free) {
  auto waits = first_waits();
  of[1]->end(1ms);
  BOOST_TEST(waits.get());
  BOOST_TEST(board->look(seats[0]).threads.running() == 1u);
}

BOOST_AUTO_TEST_CASE(a_wait_ends_when_others_have_caught_up) {
  auto waits = first_waits();
  BOOST_TEST(of[1]->go_on(100ms));
  BOOST_TEST(waits.get());
}

BOOST_AUTO_TEST_CASE(a_wait_ends_when_the_other_worker_dies) {
  auto waits = first_waits();
  board->stand(seats[1]);
  // The wait has ended, either by admission or because nobody is governed.
  waits.get();
  BOOST_TEST(board->look(seats[0]).threads.waiting() == 0u);
}

BOOST_AUTO_TEST_CASE(no_session_waits_once_turns_are_off) {
  auto waits = first_waits();
  board->set_rules({.policy = policy::share_policy::best_effort});
  waits.get();
  BOOST_TEST(!of[0]->governs());
  BOOST_TEST(board->look(seats[0]).threads.waiting() == 0u);
}

BOOST_AUTO_TEST_CASE(a_released_session_does_not_wait) {
  auto waits = first_waits();
  of[0]->release();
  BOOST_TEST(!waits.get());
  BOOST_TEST(!of[0]->governs());
  BOOST_TEST(board->look(seats[0]).threads.waiting() == 0u);
  BOOST_TEST(board->look(seats[0]).threads.running() == 0u);
}

BOOST_AUTO_TEST_CASE(a_session_that_is_ahead_is_asked_to_yield) {
  BOOST_REQUIRE(of[0]->begin());
  BOOST_REQUIRE(of[0]->go_on(100ms)); // no other session runs
  BOOST_TEST(!of[0]->hurries());
  BOOST_TEST(of[1]->begin());
  BOOST_TEST(of[0]->hurries());
  BOOST_TEST(!of[0]->go_on(1ms));
  BOOST_TEST(!of[0]->hurries());
}

BOOST_AUTO_TEST_SUITE_END()
