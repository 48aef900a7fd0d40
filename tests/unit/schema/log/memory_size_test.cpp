// Memory is sized whatever size the process's files may have.
#include "schema/log/memory_size.hpp"

#include "schema/log/session_area.hpp"

#include <boost/test/unit_test.hpp>

#include <cerrno>
#include <csignal>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu;

namespace {

constexpr std::uint64_t small_file = 1 << 16, large_file = 1 << 20;

/// Runs `body` in a child, whose limits are its own. Returns the child's exit
/// status, or 1000 + n for signal n.
template <class Body>
int in_own_process(const Body& body) {
  auto child = ::fork();
  if (child == 0)
    ::_exit(body());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Sizes a file under the limit. Returns 0 where that succeeded, 1 where it
/// failed because of the limit, and other numbers for what is wrong.
int size_under(rlimit limit) {
  unique_fd file{::memfd_create("test", MFD_CLOEXEC)};
  if (!file || ::setrlimit(RLIMIT_FSIZE, &limit) != 0)
    return 2;
  auto done = size_memory(file.get(), large_file);
  auto error = errno;
  struct stat is {};
  rlimit now{};
  if (::fstat(file.get(), &is) != 0 || ::getrlimit(RLIMIT_FSIZE, &now) != 0)
    return 3;
  if (now.rlim_cur != limit.rlim_cur || now.rlim_max != limit.rlim_max)
    return 4;
  sigset_t pending;
  ::sigpending(&pending);
  if (::sigismember(&pending, SIGXFSZ) != 0)
    return 5;
  if (done)
    return is.st_size == large_file ? 0 : 6;
  return error == EFBIG && is.st_size == 0 ? 1 : 7;
}

} // namespace

BOOST_AUTO_TEST_SUITE(memory_sizes)

BOOST_AUTO_TEST_CASE(a_limit_that_may_be_raised_is_raised_for_the_step) {
  BOOST_TEST(in_own_process([] {
               return size_under({small_file, large_file});
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_limit_that_stays_is_an_error_and_no_signal) {
  // Privileged processes may raise any limit.
  auto status = in_own_process([] {
    return size_under({small_file, small_file});
  });
  BOOST_TEST((status == 0 || status == 1), "the status is " << status);
}

BOOST_AUTO_TEST_SUITE_END()
