// getpid() returns the right number, in a child as well.
#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

pid_t asked_of_the_kernel() {
  return static_cast<pid_t>(::syscall(SYS_getpid));
}

/// Compares the number in a child and in its child, where nothing of Boost.Test
/// may run.
[[noreturn]] void compare_in_children(int deeper) {
  if (::getpid() != asked_of_the_kernel())
    ::_exit(1);
  if (deeper == 0)
    ::_exit(0);
  auto child = ::fork();
  if (child == 0)
    compare_in_children(deeper - 1);
  int how = 1;
  ::waitpid(child, &how, 0);
  ::_exit(WIFEXITED(how) ? WEXITSTATUS(how) : 2);
}

} // namespace

BOOST_AUTO_TEST_SUITE(zmq_pid)

BOOST_AUTO_TEST_CASE(getpid_is_defined_by_this_program) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  BOOST_TEST_MESSAGE("not under sanitizers");
#else
  Dl_info own{};
  Dl_info found{};
  BOOST_REQUIRE(::dladdr(reinterpret_cast<void*>(&compare_in_children), &own));
  BOOST_REQUIRE(::dladdr(::dlsym(RTLD_DEFAULT, "getpid"), &found));
  BOOST_TEST(found.dli_fbase == own.dli_fbase);
#endif
}

/// The C library's fork() would run handlers that are registered for it. The
/// system call does not.
BOOST_AUTO_TEST_CASE(a_child_of_the_system_call_has_its_own_number) {
  BOOST_TEST(::getpid() == asked_of_the_kernel());
  auto child = static_cast<pid_t>(::syscall(SYS_fork));
  BOOST_REQUIRE(child >= 0);
  if (child == 0)
    ::_exit(::getpid() == asked_of_the_kernel() ? 0 : 1);
  int how = 1;
  BOOST_REQUIRE(::waitpid(child, &how, 0) == child);
  BOOST_TEST(WIFEXITED(how));
  BOOST_TEST(WEXITSTATUS(how) == 0);
}

BOOST_AUTO_TEST_CASE(a_child_of_fork_has_its_own_number) {
  BOOST_TEST(::getpid() == asked_of_the_kernel());
  BOOST_TEST(::getpid() == asked_of_the_kernel());
  auto child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0)
    compare_in_children(1);
  int how = 1;
  BOOST_REQUIRE(::waitpid(child, &how, 0) == child);
  BOOST_TEST(WIFEXITED(how));
  BOOST_TEST(WEXITSTATUS(how) == 0);
  BOOST_TEST(::getpid() == asked_of_the_kernel());
}

BOOST_AUTO_TEST_SUITE_END()
