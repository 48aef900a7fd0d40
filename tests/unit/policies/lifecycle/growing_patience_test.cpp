// A limit for silence that grows where it proves too short.
#include "policies/lifecycle/growing_patience.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

struct waiting {
  growing_patience it;
  time_point now{std::chrono::hours{1}};

  std::int64_t ms(std::chrono::milliseconds usual = 400ms) const {
    return it.of(usual, now).count();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(patience_that_grows, waiting)

BOOST_AUTO_TEST_CASE(it_is_the_usual_one_at_first) {
  BOOST_TEST(ms() == 400);
  BOOST_TEST(ms(2s) == 2000);
}

BOOST_AUTO_TEST_CASE(each_end_doubles_it_up_to_a_limit) {
  for (auto wanted : {800, 1600, 3200, 6400, 10'000, 10'000, 10'000}) {
    it.ended(now);
    BOOST_TEST(ms() == wanted);
  }
  BOOST_TEST(ms(2s) == 10'000);
  BOOST_TEST(ms(20s) == 20'000); // never less than the usual one
}

BOOST_AUTO_TEST_CASE(each_calm_time_halves_it) {
  it.ended(now);
  it.ended(now);
  now += 29s;
  BOOST_TEST(ms() == 1600);
  now += 1s;
  BOOST_TEST(ms() == 800);
  it.ended(now); // from what is left of it
  BOOST_TEST(ms() == 1600);
  now += 60s;
  BOOST_TEST(ms() == 400);
  now += 24h;
  BOOST_TEST(ms() == 400);
}

BOOST_AUTO_TEST_SUITE_END()
