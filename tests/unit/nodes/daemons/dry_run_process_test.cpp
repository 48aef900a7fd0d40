// A dry run in its own process.
#include "nodes/daemons/worker_helpers.hpp"

#include "actors/state/state_file.hpp"
#include "actors/worker/execute/executor.hpp"
#include "devices/cpu/cpu_device.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

using namespace vgpu;

namespace {

constexpr std::uint64_t memory = std::uint64_t{1} << 26;

struct dry_run_fixture {
  unique_fd state = std::move(*make_state_memory());
  std::mutex lock;
  std::condition_variable changed;
  bool rang = false;

  std::unique_ptr<helper> begin(const begin_dry_run& how) {
    auto begun = how(state.get(), [this] {
      std::lock_guard guard{lock};
      rang = true;
      changed.notify_all();
    });
    if (!begun)
      BOOST_FAIL(begun.why().what);
    return std::move(*begun);
  }

  /// Returns the dry run that a worker makes.
  begin_dry_run worker() {
    auto nobody = "ipc://@vgpu-dry-run-test-" + std::to_string(::getpid());
    auto bytes = std::to_string(memory);
    return dry_run_process(
        WORKER, {"vgpu-worker", "--node-endpoint", nobody, "--session", "1",
                 "--vgpu", "1", "--memory-of-pgpu", bytes, "--quota", bytes,
                 "--bind", nobody + "-data", "--host-id", "here"});
  }

  status outcome_of(const begin_dry_run& how) {
    auto begun = begin(how);
    std::unique_lock guard{lock};
    changed.wait(guard, [&] { return rang; });
    auto out = begun->outcome();
    BOOST_REQUIRE(out.has_value());
    return *out;
  }

  static bool childless() { return ::waitpid(-1, nullptr, WNOHANG) < 0; }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(dry_runs_in_processes, dry_run_fixture)

BOOST_AUTO_TEST_CASE(a_dry_run_makes_the_objects_again) {
  std::vector<std::unique_ptr<device::device>> devices;
  devices.push_back(device::open_cpu_device({0, memory, 1}, memory));
  executor here{std::move(devices), memory};
  BOOST_REQUIRE(here.capture_for_dry_run(state.get()).ok());
  auto outcome = outcome_of(worker());
  BOOST_TEST(outcome.ok(), outcome.why().what);
  BOOST_TEST(childless());
}

BOOST_AUTO_TEST_CASE(a_dry_run_says_why_it_fails) {
  auto outcome = outcome_of(worker());
  BOOST_REQUIRE(!outcome.ok());
  BOOST_TEST(outcome.why().what.find("damaged") != std::string::npos,
             outcome.why().what);
  BOOST_TEST(childless());
}

BOOST_AUTO_TEST_CASE(a_dry_run_without_an_outcome_fails) {
  auto outcome = outcome_of(dry_run_process("/bin/false", {"false"}));
  BOOST_REQUIRE(!outcome.ok());
  BOOST_TEST(outcome.why().what == "its dry run exited with status 1");
}

BOOST_AUTO_TEST_CASE(an_abandoned_dry_run_leaves_no_process) {
  auto under_way =
      begin(dry_run_process("/bin/sh", {"sh", "-c", "exec sleep infinity"}));
  BOOST_TEST(!under_way->outcome().has_value());
  under_way.reset();
  BOOST_TEST(childless());
}

BOOST_AUTO_TEST_CASE(a_missing_program_does_not_start) {
  auto how = dry_run_process("/nowhere/vgpu-worker", {"vgpu-worker"});
  auto begun = how(state.get(), [] {});
  BOOST_REQUIRE(!begun.ok());
  BOOST_TEST(
      begun.why().what.find("cannot start a worker's dry run: posix_spawn") !=
      std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
