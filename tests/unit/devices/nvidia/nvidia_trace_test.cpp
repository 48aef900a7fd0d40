// When the nvidia device executes traced work, by the fake driver's clock,
// which moves only during copies and when the test moves it.
#include "devices/interface/trace_unit.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <future>

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace nvidia_trace_test {

struct told_span {
  std::promise<work_span::times> promise;
  std::future<work_span::times> times = promise.get_future();
  std::shared_ptr<work_span> span = std::make_shared<work_span>(
      [this](const work_span::times& x) { promise.set_value(x); });
};

struct traced_nvidia : with_device {
  traced_nvidia() {
    fake::call<void(std::uint64_t)>("fake_copies_take")(20'000);
    BOOST_REQUIRE(dev->map(base, g).ok());
    BOOST_REQUIRE(dev->create_stream(one, true, 0).ok());
  }
  void copy() {
    auto address = [](const std::byte* x) {
      return reinterpret_cast<std::uintptr_t>(x);
    };
    BOOST_REQUIRE(
        dev->enqueue_copy(one, {address(there)}, {address(here)}, {64}).ok());
  }
  void finish() {
    outcome done;
    dev->when_done(std::nullopt, done.tell());
    BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
  }
  static std::uint64_t events() {
    return fake::call<std::uint64_t()>("fake_events")();
  }

  static constexpr stream_id one{81};
  trace_unit& unit = dynamic_cast<trace_unit&>(*dev);
  std::byte here[64]{}, there[64]{};
};

bool took(std::chrono::nanoseconds told, std::chrono::nanoseconds expected) {
  return std::chrono::abs(told - expected) < 200ns;
}

} // namespace nvidia_trace_test

using namespace nvidia_trace_test;

BOOST_FIXTURE_TEST_SUITE(nvidia_trace, traced_nvidia)

BOOST_AUTO_TEST_CASE(a_copy_is_told_with_the_gpus_time) {
  told_span first, second;
  unit.trace(first.span);
  copy();
  unit.trace(second.span);
  copy();
  unit.trace(nullptr);
  first.span->close();
  second.span->close();
  finish();
  auto a = first.times.get();
  auto b = second.times.get();
  BOOST_TEST(took(a.ended - a.began, 20us));
  BOOST_TEST(took(b.ended - b.began, 20us));
  BOOST_TEST(took(b.began - a.began, 20us));
}

BOOST_AUTO_TEST_CASE(the_pieces_of_a_span_are_told_together) {
  told_span both;
  unit.trace(both.span);
  copy();
  copy();
  unit.trace(nullptr);
  both.span->close();
  finish();
  auto x = both.times.get();
  BOOST_TEST(took(x.ended - x.began, 40us));
}

BOOST_AUTO_TEST_CASE(work_that_is_not_traced_costs_no_event) {
  copy();
  finish();
  auto before = events();
  copy();
  finish();
  BOOST_TEST(events() == before);
}

BOOST_AUTO_TEST_SUITE_END()
