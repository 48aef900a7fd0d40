// What a session is charged where no turns are taken, beside a device that
// knows how long it worked.
#include "actors/compute/work_meter.hpp"

#include <boost/test/unit_test.hpp>

#include <thread>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// A clock of a device that stands until it is told to go on.
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

/// The host is as long with it, at least.
void host_works() {
  auto until = std::chrono::steady_clock::now() + 2ms;
  while (std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
}

} // namespace

BOOST_AUTO_TEST_SUITE(meter_of_work)

BOOST_AUTO_TEST_CASE(copies_go_by_the_devices_clock) {
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

BOOST_AUTO_TEST_CASE(kernels_go_by_the_hosts) {
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

BOOST_AUTO_TEST_CASE(a_long_one_behind_a_copy_is_seen_before_it_ends) {
  device_clock clock;
  work_meter meter{&clock};
  meter.enqueued(stream, true);
  meter.enqueued(stream, false);
  auto idle = meter.proof(stream);
  host_works();
  auto seen = meter.busy();
  BOOST_TEST((seen >= 2ms));
  // Some of it was the host's; nothing is taken back.
  clock.worked = seen - 1ms;
  idle();
  BOOST_TEST((meter.busy() == seen));
  clock.worked = seen + 1ms;
  BOOST_TEST((meter.busy() == seen + 1ms));
}

BOOST_AUTO_TEST_CASE(without_a_clock_the_hosts_is_all_there_is) {
  work_meter meter;
  meter.enqueued(stream, true);
  auto idle = meter.proof(stream);
  host_works();
  idle();
  BOOST_TEST((meter.busy() >= 2ms));
}

BOOST_AUTO_TEST_SUITE_END()
