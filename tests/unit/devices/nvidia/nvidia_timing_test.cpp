// How long the nvidia device worked, by the GPU's clock. The fake driver's
// clock moves only during copies and when the test moves it.
#include "devices/interface/timing_unit.hpp"
#include "devices/interface/value_unit.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <atomic>
#include <csignal>
#include <future>
#include <sys/mman.h>

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace timing_test {

constexpr std::size_t mib = std::size_t{1} << 20;

void pass(std::chrono::nanoseconds x) {
  fake::call<void(std::uint64_t)>("fake_pass")(
      static_cast<std::uint64_t>(x.count()));
}

/// A mebibyte of host memory whose first read takes 5 ms by the GPU's clock.
/// There can be one at a time.
class slow_source {
public:
  slow_source() {
    at_ = ::mmap(nullptr, mib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction catches {};
    catches.sa_handler = [](int) {
      pass(5ms);
      (void)::mprotect(at_, mib, PROT_READ);
    };
    ::sigaction(SIGSEGV, &catches, &before_);
  }
  ~slow_source() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(at_, mib);
  }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(at_), mib};
  }
  /// Makes the next read slow again.
  static void forget() { (void)::mprotect(at_, mib, PROT_NONE); }

private:
  inline static void* at_ = nullptr;
  struct sigaction before_ {};
};

struct timed_device : with_device {
  timed_device() {
    fake::call<void(std::uint64_t)>("fake_copies_take")(20'000);
    BOOST_REQUIRE(dev->map(base, g).ok());
    BOOST_REQUIRE(dev->create_stream(one, true, 0).ok());
    BOOST_REQUIRE(dev->create_stream(two, true, 0).ok());
  }

  void copy(stream_id in) {
    BOOST_REQUIRE(
        dev->enqueue_copy(in, {address(there)}, {address(here)}, {64}).ok());
  }
  void write(stream_id in, std::span<const std::byte> bytes) {
    BOOST_REQUIRE(dev->enqueue_write(in, base, bytes, nullptr).ok());
  }
  /// Waits until all is done, which is noticed `late`. Returns the worked time.
  std::chrono::nanoseconds after(timed_for whom,
                                 std::chrono::nanoseconds late = 0ns) {
    outcome done;
    dev->when_done(std::nullopt, [this, late, tell = done.tell()](CUresult x) {
      pass(late);
      clock->settle_times();
      tell(x);
    });
    BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
    return clock->timed(whom);
  }
  static device_address address(const std::byte* x) {
    return reinterpret_cast<std::uintptr_t>(x);
  }
  static std::uint64_t events() {
    return fake::call<std::uint64_t()>("fake_events")();
  }

  static constexpr stream_id one{71}, two{72};
  timing_unit* clock = dynamic_cast<timing_unit*>(dev.get());
  std::byte here[64]{}, there[64]{};
};

/// Compares times. The driver returns milliseconds as a float.
bool is(std::chrono::nanoseconds told, std::chrono::nanoseconds expected) {
  return std::chrono::abs(told - expected) < 100ns;
}

} // namespace timing_test

using namespace timing_test;

BOOST_FIXTURE_TEST_SUITE(times, timed_device)

BOOST_AUTO_TEST_CASE(host_work_for_a_copy_is_not_device_time) {
  clock->time(timed_for::turns);
  slow_source source;
  for (auto i = 0; i < 3; ++i) {
    source.forget();
    copy(one);
    write(one, source.bytes());
  }
  BOOST_TEST(is(after(timed_for::turns), 120us));
}

BOOST_AUTO_TEST_CASE(a_late_noticed_end_is_not_device_time) {
  clock->time(timed_for::turns);
  for (auto i = 1; i <= 3; ++i) {
    copy(legacy_stream);
    BOOST_TEST(is(after(timed_for::turns, 3ms), i * 20us));
    pass(1ms);
  }
}

BOOST_AUTO_TEST_CASE(streams_that_work_at_the_same_time_count_once) {
  clock->time(timed_for::turns);
  copy(one);
  copy(two);
  copy(one); // from 0 to 60, and from 20 to 60
  BOOST_TEST(is(after(timed_for::turns), 60us));
  copy(two);
  BOOST_TEST(is(after(timed_for::turns), 80us));
}

/// This holds whichever stream's end is looked at first.
BOOST_AUTO_TEST_CASE(concurrent_streams_count_once_in_any_order) {
  clock->time(timed_for::turns);
  for (auto first : {one, two}) {
    auto before = clock->timed(timed_for::turns);
    copy(one);
    copy(two);
    copy(one);
    outcome done;
    dev->when_done(first, done.tell());
    BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
    clock->settle_times();
    BOOST_TEST(is(after(timed_for::turns) - before, 60us));
  }
}

BOOST_AUTO_TEST_CASE(each_purpose_has_its_own_time) {
  clock->time(timed_for::account);
  copy(one);
  BOOST_TEST(is(after(timed_for::account), 20us));
  clock->time(timed_for::turns);
  copy(one);
  copy(one);
  BOOST_TEST(is(after(timed_for::turns), 40us));
  BOOST_TEST(is(clock->timed(timed_for::account), 20us));
}

BOOST_AUTO_TEST_CASE(unrequested_times_cost_nothing) {
  copy(one);
  (void)after(timed_for::turns);
  auto before = events();
  copy(one);
  BOOST_TEST(is(after(timed_for::turns), 0us));
  BOOST_TEST(events() == before);
}

BOOST_AUTO_TEST_CASE(a_pause_seen_by_a_query_does_not_count) {
  clock->time(timed_for::turns);
  copy(one);
  BOOST_TEST(dev->idle(one));
  pass(9ms);
  copy(one);
  BOOST_TEST(dev->create_event(event_id{7}, false).ok());
  BOOST_TEST(dev->record_event(event_id{7}, one).ok());
  BOOST_TEST(*dev->query_event(event_id{7}));
  pass(9ms);
  copy(one);
  BOOST_TEST(is(after(timed_for::turns), 60us));
}

/// The fake driver's stream is held until hold(0).
BOOST_AUTO_TEST_CASE(a_streams_wait_is_not_device_time) {
  clock->time(timed_for::turns);
  std::atomic<std::uint32_t> word{0};
  auto& values = dynamic_cast<value_unit&>(*dev);
  copy(legacy_stream);
  BOOST_REQUIRE(values
                    .enqueue_wait(legacy_stream,
                                  {reinterpret_cast<std::uintptr_t>(&word), 1})
                    .ok());
  copy(legacy_stream);
  pass(9ms);
  hold(0);
  BOOST_TEST(is(after(timed_for::turns), 40us));
}

BOOST_AUTO_TEST_CASE(a_host_function_is_not_device_time) {
  clock->time(timed_for::turns);
  copy(legacy_stream);
  std::promise<void> ended;
  auto function = [&ended](std::function<void()> go_on) {
    pass(9ms);
    go_on();
    ended.set_value();
  };
  BOOST_REQUIRE(dev->enqueue_host(legacy_stream, function).ok());
  copy(legacy_stream);
  ended.get_future().wait();
  hold(0);
  BOOST_TEST(is(after(timed_for::turns), 40us));
}

BOOST_AUTO_TEST_CASE(unfinished_work_does_not_count_yet) {
  clock->time(timed_for::turns);
  hold(1);
  copy(legacy_stream);
  outcome done;
  dev->when_done(std::nullopt, done.tell());
  clock->settle_times();
  BOOST_TEST(is(clock->timed(timed_for::turns), 0us));
  pass(2ms);
  hold(0);
  BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
  clock->settle_times();
  BOOST_TEST(is(clock->timed(timed_for::turns), 20us));
}

/// After such a pause the driver's floats no longer resolve microseconds.
BOOST_AUTO_TEST_CASE(times_stay_precise_after_a_long_pause) {
  clock->time(timed_for::turns);
  copy(one);
  (void)after(timed_for::turns);
  pass(24h);
  for (auto i = 2; i <= 4; ++i) {
    copy(one);
    copy(two); // from 0 to 40, from 20 to 40
    BOOST_TEST(is(after(timed_for::turns), 20us + (i - 1) * 40us));
  }
}

/// The delay happens once, and its time is not charged.
BOOST_AUTO_TEST_CASE(a_delay_is_not_counted) {
  auto now = [] { return fake::call<std::uint64_t()>("fake_now")(); };
  clock->time(timed_for::turns);
  auto before = now();
  clock->delay();
  copy(one);
  copy(one);
  BOOST_TEST(is(after(timed_for::turns), 40us));
  BOOST_TEST(now() - before > 300'000u);
  before = now();
  copy(one);
  BOOST_TEST(is(after(timed_for::turns), 60us));
  BOOST_TEST(now() - before < 300'000u);
}

BOOST_AUTO_TEST_CASE(events_are_reused) {
  clock->time(timed_for::turns);
  auto round = [&] {
    for (auto i = 0; i < 8; ++i)
      copy(one);
    (void)after(timed_for::turns);
  };
  round();
  round();
  auto before = events();
  for (auto i = 0; i < 100; ++i)
    round();
  BOOST_TEST(events() <= before + 4);
}

BOOST_AUTO_TEST_SUITE_END()
