// Time in which a judge could hear, and what it may conclude from silence.
#include "policies/lifecycle/attention.hpp"
#include "policies/lifecycle/liveness.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

struct a_judge {
  time_point real{1h};
  attention attended{real, 200ms, 500ms};

  void turn(duration later) { attended.attend(real += later); }
  duration since(time_point x) const { return attended.now() - x; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(attentions)

BOOST_FIXTURE_TEST_CASE(a_judge_that_runs_often_lives_in_real_time, a_judge) {
  for (auto i = 0; i < 100; ++i)
    turn(i % 2 == 0 ? 10ms : 200ms);
  BOOST_TEST((attended.now() == real));
  BOOST_TEST(attended.settled());
}

BOOST_FIXTURE_TEST_CASE(time_in_which_it_stood_still_does_not_count, a_judge) {
  auto heard = attended.now();
  turn(100ms);
  turn(3s);
  BOOST_TEST((since(heard) == 300ms));
  turn(0ms);
  turn(0ms);
  BOOST_TEST((since(heard) == 300ms));
  turn(50ms);
  BOOST_TEST((since(heard) == 350ms));
}

BOOST_FIXTURE_TEST_CASE(time_never_goes_back_nor_ahead, a_judge) {
  turn(100ms);
  auto before = attended.now();
  turn(-50ms);
  BOOST_TEST((attended.now() == before));
  // The time that was counted is not counted again.
  turn(50ms);
  BOOST_TEST((attended.now() == before));
  turn(10ms);
  BOOST_TEST((since(before) == 10ms));
  BOOST_TEST((attended.now() <= real));
}

BOOST_FIXTURE_TEST_CASE(it_must_run_at_least_once_a_step, a_judge) {
  auto then = attended.now() + 500ms;
  auto turns = 0;
  for (; attended.now() < then; ++turns) {
    auto due = attended.due(then);
    BOOST_TEST((due > real));
    BOOST_TEST((due <= real + 200ms));
    turn(due - real);
  }
  BOOST_TEST(turns == 3);
  BOOST_TEST((real == time_point{1h} + 500ms));
  BOOST_TEST((attended.due(then) == real));
}

BOOST_FIXTURE_TEST_CASE(after_a_gap_it_settles_by_running, a_judge) {
  turn(400ms); // late, as on a busy machine
  BOOST_TEST(attended.settled());
  turn(401ms);
  BOOST_TEST(!attended.settled());
  turn(200ms);
  turn(200ms);
  BOOST_TEST(!attended.settled());
  turn(100ms);
  BOOST_TEST(attended.settled());
}

/// However often and long the judge stands still, a peer that is heard after
/// each time is not lost, and one that is never heard is lost in the end.
BOOST_FIXTURE_TEST_CASE(a_stopped_judge_loses_the_dead_alone, a_judge) {
  liveness_options options{500ms, 100ms};
  sightings lives{attended.now()};
  sightings dead{attended.now()};
  auto stops = 0;
  for (; stops < 50 && !is_lost(dead, attended.now(), options); ++stops) {
    turn(4500ms);
    BOOST_TEST(!is_lost(lives, attended.now(), options));
    lives = {attended.now()};
  }
  BOOST_TEST(stops == 3);
}

BOOST_AUTO_TEST_CASE(a_doubt_gives_the_whole_time_once_more) {
  liveness_options options{500ms, 100ms};
  time_point start{1h};
  sightings seen{start, start + 200ms};
  BOOST_TEST(is_lost(seen, start + 300ms, options));
  seen.doubted = start + 300ms;
  BOOST_TEST(!is_lost(seen, start + 799ms, options));
  BOOST_TEST(is_lost(seen, start + 800ms, options));
}

BOOST_AUTO_TEST_CASE(silence_of_most_is_suspicious) {
  struct row {
    std::size_t silent, peers;
    bool mass;
  };
  for (const auto& x :
       {row{0, 0, false}, row{0, 5, false}, row{1, 1, false}, row{1, 2, false},
        row{2, 2, true}, row{2, 3, true}, row{2, 4, false}, row{3, 4, true},
        row{30, 30, true}, row{15, 30, false}, row{16, 30, true}})
    BOOST_TEST(is_mass_silence(x.silent, x.peers) == x.mass,
               x.silent << " of " << x.peers);
}

BOOST_AUTO_TEST_CASE(a_peer_is_silent_from_half_its_time_on) {
  liveness_options options{500ms, 100ms};
  time_point start{1h};
  BOOST_TEST(!is_silent({start}, start + 249ms, options));
  BOOST_TEST(is_silent({start}, start + 250ms, options));
  BOOST_TEST(is_silent({start, start}, start, options));
}

BOOST_AUTO_TEST_SUITE_END()
