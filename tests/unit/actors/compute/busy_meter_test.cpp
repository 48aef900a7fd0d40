// How busy a device was in the last second, by a clock that the test moves.
#include "actors/compute/busy_meter.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

struct busy_fixture {
  busy_meter meter;
  busy_meter::clock::time_point now{1h};
  busy_meter::times worked{0ns, 0ns};

  busy_fixture() {
    meter.watch([this] { return worked; });
    meter.look(now);
  }

  /// Lets `time` pass, of which the first device works for `work`.
  void pass(std::chrono::milliseconds time, std::chrono::milliseconds work) {
    now += time;
    worked[0] += work;
    meter.look(now);
  }
  int percent() const { return meter.percents().at(0); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(busy_meters, busy_fixture)

BOOST_AUTO_TEST_CASE(the_meter_covers_at_most_the_last_second) {
  BOOST_TEST(percent() == 0);
  for (int i = 0; i < 30; ++i)
    pass(100ms, 25ms);
  BOOST_TEST(percent() == 25);
  BOOST_TEST(meter.percents().at(1) == 0);
  for (int i = 0; i < 10; ++i)
    pass(100ms, 100ms);
  BOOST_TEST(percent() == 100);
  for (int i = 0; i < 10; ++i)
    pass(100ms, 0ms);
  BOOST_TEST(percent() == 0);
}

BOOST_AUTO_TEST_CASE(a_young_meter_covers_the_time_since_it_began) {
  pass(100ms, 100ms);
  BOOST_TEST(percent() == 100);
  for (int i = 0; i < 4; ++i)
    pass(100ms, 0ms);
  BOOST_TEST(percent() == 20);
}

BOOST_AUTO_TEST_CASE(a_stopped_clock_and_excess_work_are_harmless) {
  meter.look(now);
  BOOST_TEST(percent() == 0);
  pass(100ms, 300ms);
  BOOST_TEST(percent() == 100);
}

BOOST_AUTO_TEST_CASE(a_mapped_log_shows_the_percentage) {
  auto made = session_area::create(minimum_log, granule_bytes);
  BOOST_REQUIRE(made.ok());
  auto area = std::make_shared<const session_area>(std::move(*made));
  meter.show(area);
  pass(100ms, 50ms);
  auto& word = area->header().busy[0];
  BOOST_TEST(busy_word::percent(word, now) == 50u);
  BOOST_TEST(busy_word::percent(word, now + 1900ms) == 50u);
  // A value without an update for 2 s counts as idle.
  BOOST_TEST(busy_word::percent(word, now + 2100ms) == 0u);
  meter.forget();
  auto before = word.load();
  pass(100ms, 100ms);
  BOOST_TEST(word.load() == before);
}

BOOST_AUTO_TEST_CASE(any_word_reads_as_a_percentage) {
  for (std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0},
                             std::uint64_t{255}, busy_word::of(7000, now)})
    BOOST_TEST(busy_word::percent(word, now) <= 100u);
}

BOOST_AUTO_TEST_SUITE_END()
