// A worker that fails again and again.
#include "tests/unit/actors/manager_fixture.hpp"

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;

namespace {

struct failing_worker : cluster {
  /// Lets the session's worker fail so many times, and returns whether the
  /// manager has replaced it each time. After each failure the session may get
  /// a new result.
  bool is_replaced_after(int failures, bool with_results) {
    join("a");
    auto at = open("a");
    for (auto i = 1; i <= failures; ++i) {
      say("c", "client/c", suspect{at.session, at.epoch, "its worker is gone"});
      live(6s, {"a"}); // the longest delay of a restart
      auto order = ordered("a");
      if (!order)
        return false;
      started("a", *order);
      at = *leased();
      event got;
      got.kind = "first-result";
      got.session = at.session;
      got.epoch = at.epoch;
      if (with_results)
        say("c", "client/c", got);
    }
    return true;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(restarts, failing_worker)

BOOST_AUTO_TEST_CASE(a_session_is_given_up_after_failures_without_a_result) {
  BOOST_TEST(!is_replaced_after(10, false));
  BOOST_TEST(count("session-failed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_session_that_gets_results_is_always_replaced) {
  BOOST_TEST(is_replaced_after(30, true));
  BOOST_TEST(count("session-failed") == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
