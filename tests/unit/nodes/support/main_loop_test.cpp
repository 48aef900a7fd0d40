// The main thread of a daemon, and its children.
#include "nodes/support/main_loop.hpp"

#include "actors/link/system.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <future>
#include <thread>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Longer than any step takes, even on a busy machine.
constexpr auto patience = 20s;

/// A running loop, and an actor to which it reports its children.
struct running_loop {
  system_config config;
  caf::actor_system system{config};
  main_loop loop;
  caf::scoped_actor listener{system};
  std::thread thread{[this] { loop.run(); }};

  ~running_loop() {
    loop.stop();
    thread.join();
  }

  template <class T>
  T told() {
    T out;
    listener->receive([&](const T& x) { out = x; },
                      caf::after(patience) >>
                          [] { BOOST_FAIL("no report of a child came"); });
    return out;
  }

  /// Starts a child that runs until it is killed.
  child_started start(std::uint64_t tag) {
    child_spec what;
    what.argv = {"/bin/sleep", "1000"};
    what.input_later = true;
    loop.children()->start(tag, std::move(what),
                           caf::actor_cast<child_listener>(listener));
    return told<child_started>();
  }

  /// Returns whether the loop runs what is posted.
  bool is_awake() {
    auto ran = std::make_shared<std::promise<void>>();
    loop.post([ran] { ran->set_value(); });
    return ran->get_future().wait_for(patience) == std::future_status::ready;
  }
};

/// A copy of this process that does nothing, like a child between fork and
/// exec, for as long as the test likes.
struct copy_of_this {
  pid_t pid = ::fork();

  copy_of_this() {
    if (pid != 0)
      return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
      ::pause();
  }
  ~copy_of_this() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(main_loop)

BOOST_AUTO_TEST_CASE(a_childs_start_and_end_are_reported) {
  running_loop x;
  auto begun = x.start(1);
  BOOST_TEST(begun.tag == 1u);
  BOOST_TEST(begun.failure == "");
  BOOST_TEST(::kill(static_cast<pid_t>(begun.pid), 0) == 0);
  x.loop.children()->signal(1, SIGTERM);
  auto gone = x.told<child_exited>();
  BOOST_TEST(gone.tag == 1u);
  BOOST_TEST(gone.how == "signal 15");
  BOOST_TEST(!gone.clean);
}

// A forked process that has not called exec yet has a copy of every descriptor,
// so one that is closed here stays open there. The kernel still reports it,
// under a number that another child may have by now.
BOOST_AUTO_TEST_CASE(a_copied_descriptor_of_an_ended_child_ends_no_other) {
  running_loop x;
  x.start(1);
  copy_of_this copy;
  x.loop.children()->signal(1, SIGKILL);
  x.told<child_exited>();
  auto second = x.start(2);
  auto awake = x.is_awake();
  BOOST_TEST(awake, "it waits for the end of a child that runs");
  if (!awake)
    ::kill(static_cast<pid_t>(second.pid), SIGKILL);
  x.loop.children()->signal(2, SIGTERM);
  auto gone = x.told<child_exited>();
  BOOST_TEST(gone.tag == 2u);
  BOOST_TEST(gone.how == "signal 15");
}

BOOST_AUTO_TEST_SUITE_END()
