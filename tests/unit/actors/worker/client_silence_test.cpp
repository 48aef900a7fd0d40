// When a client's lease lapses, and when its session is given up.
#include "actors/worker/serve/client_silence.hpp"

#include "actors/client/fence.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

struct a_silence {
  client_silence::clock::time_point now{};
  client_silence silence{400ms, 10s, now};

  /// Lets the worker run until then, with nothing to read.
  void run_until(std::chrono::milliseconds then) {
    for (auto at = 0ms; at <= then; at += 50ms)
      silence.turn(now + at);
    silence.drained();
  }
};

/// A client sends each 100 ms for the last time at 300 ms. Its worker may stand
/// still. Messages wait for it meanwhile.
struct race {
  static constexpr auto term = 400ms;
  static constexpr auto step = 10ms;

  std::chrono::milliseconds stops_at;
  std::chrono::milliseconds stopped_for;
  client_silence::clock::time_point start{1h};
  client_silence::clock::time_point last_sent = start + 300ms;
  client_silence::clock::time_point next_sent = start;
  client_silence worker{term, 10s, start};

  bool stands_still(std::chrono::milliseconds at) const {
    return at >= stops_at && at < stops_at + stopped_for;
  }

  /// Returns whether the worker may execute a call at this time.
  bool runs_at(std::chrono::milliseconds at) {
    if (stands_still(at))
      return false;
    auto now = start + at;
    worker.turn(now);
    for (; next_sent <= std::min(now, last_sent); next_sent += 100ms)
      if (!worker.lapsed())
        worker.heard(now);
    worker.drained();
    (void)worker.lapses(now);
    return !worker.lapsed();
  }
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
  run_until(250ms);
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

BOOST_FIXTURE_TEST_CASE(a_message_that_waited_renews_no_lapsed_lease,
                        a_silence) {
  silence.renew(now);
  // The worker stood still, and reads before it looks at the clock.
  silence.heard(now + 3s);
  BOOST_TEST(silence.lapsed());
  // The client's claim waited, too.
  silence.renew(now + 3s);
  BOOST_TEST(silence.lapsed());
  silence.drained();
  silence.renew(now + 3s + 50ms);
  BOOST_TEST(!silence.lapsed());
}

BOOST_FIXTURE_TEST_CASE(the_first_client_may_have_waited, a_silence) {
  silence.renew(now + 3s);
  BOOST_TEST(!silence.lapsed());
}

BOOST_AUTO_TEST_CASE(a_stopped_worker_never_meets_its_successor) {
  auto fence = 300ms + race::term + worker_fence::margin;
  for (auto stops_at = 0ms; stops_at <= 1000ms; stops_at += 20ms)
    for (auto stopped_for = 0ms; stopped_for <= 2000ms; stopped_for += 70ms) {
      race x{stops_at, stopped_for};
      auto ran_last = 0ms;
      for (auto at = 0ms; at < 4s; at += race::step)
        if (x.runs_at(at))
          ran_last = at;
      BOOST_TEST(ran_last < fence, "stopped at " << stops_at.count() << " for "
                                                 << stopped_for.count()
                                                 << " ms: ran at "
                                                 << ran_last.count());
    }
}

BOOST_FIXTURE_TEST_CASE(a_session_of_a_silent_client_is_given_up, a_silence) {
  BOOST_TEST(!silence.abandoned(now + 10s));
  BOOST_TEST(silence.abandoned(now + 10'001ms));
  run_until(5s);
  silence.heard(now + 5s);
  BOOST_TEST(!silence.abandoned(now + 10'001ms));
}

BOOST_AUTO_TEST_SUITE_END()
