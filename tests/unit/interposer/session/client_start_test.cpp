// Starts a client in a program whose signal handlers interrupt system calls.
#include "interposer/session/client_start.hpp"

#include <boost/test/unit_test.hpp>

#include <csignal>

#include <sys/time.h>

using namespace vgpu::interposer;

namespace {

/// Runs a signal handler every 200 microseconds, without SA_RESTART, so that
/// each blocking system call fails with EINTR sooner or later.
struct interrupted {
  struct sigaction before {};

  interrupted() {
    struct sigaction handler {};
    handler.sa_handler = [](int) {};
    BOOST_REQUIRE(::sigaction(SIGALRM, &handler, &before) == 0);
    set_period({0, 200});
  }
  ~interrupted() {
    set_period({0, 0});
    ::sigaction(SIGALRM, &before, nullptr);
  }

  static void set_period(timeval period) {
    itimerval timer{period, period};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
};

constexpr int starts = 100;

} // namespace

BOOST_AUTO_TEST_SUITE(client_starts)

BOOST_FIXTURE_TEST_CASE(signals_do_not_hide_a_started_client, interrupted) {
  for (int i = 0; i < starts; ++i) {
    auto started = start_client("/bin/true");
    if (!started)
      BOOST_FAIL(started.why().what);
  }
}

BOOST_FIXTURE_TEST_CASE(signals_do_not_hide_why_no_client_started,
                        interrupted) {
  for (int i = 0; i < starts; ++i) {
    auto started = start_client("/no/such/program");
    BOOST_REQUIRE(!started.ok());
    BOOST_REQUIRE_MESSAGE(started.why().what.find("No such file") !=
                              std::string::npos,
                          started.why().what);
  }
}

BOOST_AUTO_TEST_SUITE_END()
