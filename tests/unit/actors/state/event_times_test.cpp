#include "actors/state/event_times.hpp"
#include "tests/unit/actors/plain_device.hpp"

#include <boost/test/unit_test.hpp>

#include <map>

using namespace vgpu;

namespace {

/// A device with a clock that the test sets. Like a driver, it returns the time
/// between two events as a float.
class clocked_device final : public test::plain_device {
public:
  status record_event(event_id x, stream_id) override {
    records_[x] = now;
    return {};
  }
  result<float> elapsed(event_id from, event_id to) override {
    return static_cast<float>(records_.at(to) - records_.at(from));
  }

  double now = 0; // in milliseconds

private:
  std::map<event_id, double> records_;
};

struct timed_session {
  void record(event_id x, double at) {
    on->now = at;
    times->created(x, true);
    BOOST_REQUIRE(on->record_event(x, legacy_stream).ok());
    times->recorded(x);
  }

  /// Continues on another device, whose clock is unrelated to this one's.
  void move() {
    auto state = times->capture(*on);
    BOOST_REQUIRE(state.ok());
    on = std::make_unique<clocked_device>();
    on->now = 5e6;
    times = std::make_unique<event_times>();
    for (auto& x : *state)
      times->created(x.event, x.timed);
    BOOST_REQUIRE(times->restore(*on, *state).ok());
  }

  float between(event_id from, event_id to) {
    auto span = times->elapsed(*on, from, to);
    BOOST_REQUIRE(span.ok());
    return *span;
  }

  std::unique_ptr<clocked_device> on = std::make_unique<clocked_device>();
  std::unique_ptr<event_times> times = std::make_unique<event_times>();
};

constexpr event_id first{1}, second{2}, later{3};
constexpr double hour = 3.6e6;

} // namespace

BOOST_FIXTURE_TEST_SUITE(event_times_across_moves, timed_session)

BOOST_AUTO_TEST_CASE(a_measured_time_survives_moves_much_later) {
  record(first, 1'000);
  record(second, 1'001.620258);
  auto at_first = between(first, second);
  on->now = 24 * hour;
  move();
  BOOST_TEST(between(first, second) == at_first);
  on->now += 24 * hour;
  move();
  BOOST_TEST(between(first, second) == at_first);
}

BOOST_AUTO_TEST_CASE(the_time_of_a_move_is_not_measured) {
  record(first, 100);
  on->now = 130;
  move();
  record(later, on->now + 12);
  BOOST_TEST(between(first, later) == 42.0f);
  BOOST_TEST(between(later, first) == -42.0f);
}

BOOST_AUTO_TEST_CASE(times_are_measured_across_several_devices) {
  record(first, 100);
  record(second, 100.5);
  on->now = 10 * hour;
  move();
  record(later, on->now + 0.25);
  auto since = between(second, later);
  on->now += 10 * hour;
  move();
  BOOST_TEST(between(first, second) == 0.5f);
  BOOST_TEST(between(second, later) == since);
}

BOOST_AUTO_TEST_SUITE_END()
