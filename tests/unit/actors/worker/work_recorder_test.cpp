// The times of traced work, as a worker tells them.
#include "actors/worker/session/work_recorder.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <vector>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Keeps the times that are told.
class times_sink final : public unheard {
public:
  void print(console where, std::uint64_t, std::string_view text) override {
    BOOST_REQUIRE(where == console::times);
    BOOST_REQUIRE(text.size() == sizeof(work_times));
    std::memcpy(&told.emplace_back(), text.data(), text.size());
  }
  std::vector<work_times> told;
};

struct noted_unit final : device::trace_unit {
  void trace(std::shared_ptr<device::work_span> what) override {
    if (what)
      span = std::move(what);
  }
  std::shared_ptr<device::work_span> span;
};

struct recorder_fixture {
  std::shared_ptr<times_sink> sink = std::make_shared<times_sink>();
  std::shared_ptr<console_output> output = std::make_shared<console_output>();
  work_recorder recorder{output};
  noted_unit unit;

  recorder_fixture() {
    output->print_to(sink);
    recorder.record(true);
  }
  /// Executes a piece of work at these times of the device.
  work_times of(device::work_span::clock::time_point began,
                std::chrono::nanoseconds length) {
    {
      work_recorder::traced now{recorder, &unit, 0, call_number{7}};
      unit.span->expect();
    }
    unit.span->began(began);
    unit.span->ended(
        began +
        std::chrono::duration_cast<device::work_span::clock::duration>(length));
    BOOST_REQUIRE(sink->told.size() == 1u);
    return sink->told[0];
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(work_recorders, recorder_fixture)

BOOST_AUTO_TEST_CASE(work_has_the_times_of_its_device) {
  auto began = device::work_span::clock::now() + 1h;
  auto told = of(began, 20us);
  BOOST_TEST(told.call == 7u);
  BOOST_TEST(told.ended - told.began == 20'000u);
  BOOST_TEST(told.began ==
             static_cast<std::uint64_t>(
                 std::chrono::nanoseconds{began.time_since_epoch()}.count()));
}

/// The clock of the device may be behind the host's.
BOOST_AUTO_TEST_CASE(work_before_its_call_keeps_its_length) {
  auto told = of(device::work_span::clock::now() - 1h, 20us);
  BOOST_TEST(told.received <= told.submitted);
  BOOST_TEST(told.submitted <= told.reached);
  BOOST_TEST(told.reached <= told.began);
  BOOST_TEST(told.ended - told.began == 20'000u);
}

BOOST_AUTO_TEST_SUITE_END()
