// What a session is charged where it takes no turns, on a device that measures
// how long it worked.
#include "actors/compute/work_meter.hpp"

#include <boost/test/unit_test.hpp>

#include <thread>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// A device's clock that moves only when the test moves it.
struct device_clock final : device::timing_unit {
  void time(device::timed_for whom) noexcept override { for_whom = whom; }
  void delay() noexcept override {}
  void settle_times() override {}
  std::chrono::nanoseconds
  timed(device::timed_for whom) const noexcept override {
    return whom == device::timed_for::account ? worked : 1h;
  }

  device::timed_for for_whom = device::timed_for::turns;
  std::chrono::nanoseconds worked{0};
};

constexpr stream_id stream{7};

/// Keeps the host busy for at least 2 ms.
void host_works() {
  auto until = std::chrono::steady_clock::now() + 2ms;
  while (std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
}

} // namespace

BOOST_AUTO_TEST_SUITE(meter_of_work)

BOOST_AUTO_TEST_CASE(copies_are_charged_by_the_devices_clock) {
  device_clock clock;
  work_meter meter{&clock};
  for (auto i = 1; i <= 3; ++i) {
    meter.enqueued(stream, true);
    BOOST_TEST((clock.for_whom == device::timed_for::account));
    auto idle = meter.proof(stream);
    host_works();
    clock.worked += 50us;
    idle();
    BOOST_TEST(meter.busy().count() == i * 50'000);
  }
}

BOOST_AUTO_TEST_CASE(kernels_are_charged_by_the_hosts_clock) {
  device_clock clock;
  work_meter meter{&clock};
  meter.enqueued(stream, false);
  BOOST_TEST((clock.for_whom == device::timed_for::nobody));
  meter.enqueued(stream, true); // behind them
  BOOST_TEST((clock.for_whom == device::timed_for::nobody));
  auto idle = meter.proof(stream);
  host_works();
  idle();
  BOOST_TEST((meter.busy() >= 2ms));
}

BOOST_AUTO_TEST_CASE(a_long_kernel_behind_a_copy_is_charged_before_its_end) {
  device_clock clock;
  work_meter meter{&clock};
  meter.enqueued(stream, true);
  meter.enqueued(stream, false);
  auto idle = meter.proof(stream);
  host_works();
  auto seen = meter.busy();
  BOOST_TEST((seen >= 2ms));
  // Some of it was host time, but charges are never taken back.
  clock.worked = seen - 1ms;
  idle();
  BOOST_TEST((meter.busy() == seen));
  clock.worked = seen + 1ms;
  BOOST_TEST((meter.busy() == seen + 1ms));
}

BOOST_AUTO_TEST_CASE(a_device_without_a_clock_is_charged_by_the_hosts) {
  work_meter meter;
  meter.enqueued(stream, true);
  auto idle = meter.proof(stream);
  host_works();
  idle();
  BOOST_TEST((meter.busy() >= 2ms));
}

BOOST_AUTO_TEST_SUITE_END()
