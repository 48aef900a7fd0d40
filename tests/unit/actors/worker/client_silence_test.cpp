// When a client's lease lapses, and when its session is given up.
#include "actors/worker/serve/client_silence.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

struct a_silence {
  client_silence::clock::time_point now{};
  client_silence silence{400ms, 10s, now};
};

} // namespace

BOOST_AUTO_TEST_SUITE(client_silences)

BOOST_FIXTURE_TEST_CASE(a_lease_lapses_once_after_its_term, a_silence) {
  BOOST_TEST(!silence.lapses(now + 400ms));
  BOOST_TEST(!silence.lapsed());
  BOOST_TEST(silence.lapses(now + 401ms));
  BOOST_TEST(!silence.lapses(now + 402ms));
  BOOST_TEST(silence.lapsed());
}

BOOST_FIXTURE_TEST_CASE(a_client_that_sends_keeps_its_lease, a_silence) {
  silence.heard(now + 300ms);
  BOOST_TEST(!silence.lapses(now + 700ms));
  BOOST_TEST(silence.lapses(now + 701ms));
}

BOOST_FIXTURE_TEST_CASE(a_lapse_ends_when_the_lease_is_renewed, a_silence) {
  BOOST_TEST(silence.lapses(now + 1s));
  BOOST_TEST(silence.refuses());
  BOOST_TEST(!silence.refuses());
  silence.heard(now + 1s);
  BOOST_TEST(silence.lapsed());
  silence.renew(now + 2s);
  BOOST_TEST(!silence.lapsed());
  BOOST_TEST(silence.lapses(now + 3s));
  BOOST_TEST(silence.refuses());
}

BOOST_FIXTURE_TEST_CASE(a_session_of_a_silent_client_is_given_up, a_silence) {
  BOOST_TEST(!silence.abandoned(now + 10s));
  BOOST_TEST(silence.abandoned(now + 10'001ms));
  silence.heard(now + 5s);
  BOOST_TEST(!silence.abandoned(now + 10'001ms));
}

BOOST_AUTO_TEST_SUITE_END()
