// The limits of a worker's memory and tasks, where this host has control groups
// that the test may change.
#include "nodes/sandbox/worker_groups.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

using namespace vgpu;

namespace {

constexpr std::uint64_t mib = 1 << 20;

struct limited_fixture {
  sandbox_report report;
  worker_groups groups{report};

  /// Returns whether there is something to test here.
  bool given() const {
    auto out = report.text() == "cgroup";
    if (!out)
      BOOST_TEST_MESSAGE(report.text());
    return out;
  }

  /// Runs `f` in a child in these groups. Returns how it ended, as wait(2)
  /// does.
  template <class F>
  int run(const std::vector<std::string>& files, F f) {
    auto child = ::fork();
    if (child == 0) {
      for (const auto& x : files) {
        auto fd = ::open(x.c_str(), O_WRONLY | O_CLOEXEC);
        if (fd < 0 || ::write(fd, "0", 1) != 1)
          ::_exit(9);
      }
      ::_exit(f());
    }
    auto status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    return status;
  }
};

/// Uses memory, and returns 0 if it got all of it.
int use(std::uint64_t bytes) {
  auto* all = static_cast<char*>(std::malloc(bytes));
  for (std::uint64_t i = 0; all != nullptr && i < bytes; i += 4096)
    static_cast<volatile char*>(all)[i] = 1;
  return all != nullptr ? 0 : 1;
}

/// Forks `most` children that wait. Returns how many it got.
int fork_many(int most) {
  std::vector<pid_t> all;
  for (auto i = 0; i < most; ++i) {
    auto child = ::fork();
    if (child == 0)
      for (;;)
        ::pause();
    if (child > 0)
      all.push_back(child);
  }
  for (auto x : all) {
    ::kill(x, SIGKILL);
    ::waitpid(x, nullptr, 0);
  }
  return static_cast<int>(all.size());
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(groups_of_workers, limited_fixture)

BOOST_AUTO_TEST_CASE(a_worker_cannot_exceed_its_memory) {
  if (!given())
    return;
  auto files = groups.make(1, 64 * mib);
  BOOST_TEST(run(files, [] { return use(8 * mib); }) == 0);
  auto status = run(files, [] { return use(1024 * mib); });
  BOOST_TEST((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  groups.limit(1, 512 * mib);
  BOOST_TEST(run(files, [] { return use(128 * mib); }) == 0);
}

BOOST_AUTO_TEST_CASE(a_worker_cannot_fork_without_end) {
  if (!given())
    return;
  auto files = groups.make(2, 256 * mib, 8);
  auto status = run(files, [] { return fork_many(50); });
  // A sanitizer adds threads.
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) < 8));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_ended_workers) {
  if (!given())
    return;
  auto files = groups.make(3, 64 * mib);
  BOOST_REQUIRE(!files.empty());
  for (const auto& x : files)
    BOOST_TEST(std::filesystem::exists(x));
  groups.remove(3);
  for (const auto& x : files)
    BOOST_TEST(!std::filesystem::exists(x));
}

BOOST_AUTO_TEST_CASE(a_worker_may_use_more_than_its_quota) {
  constexpr auto quota = std::uint64_t{3} << 40;
  BOOST_TEST(memory_of_worker(quota) >= 2 * quota + 4096 * mib);
  BOOST_TEST(memory_of_worker(~std::uint64_t{0}) > quota);
}

BOOST_AUTO_TEST_SUITE_END()
