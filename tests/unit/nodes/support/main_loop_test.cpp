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

/// Longer than anything here takes, even on a busy machine.
constexpr auto patience = 20s;

/// A loop that runs, and somebody whom its children's ends are told to.
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
                          [] { BOOST_FAIL("nothing is told of a child"); });
    return out;
  }

  /// Starts one that ends when it is killed.
  child_started start(std::uint64_t tag) {
    child_spec what;
    what.argv = {"/bin/sleep", "1000"};
    what.input_later = true;
    loop.children()->start(tag, std::move(what),
                           caf::actor_cast<child_listener>(listener));
    return told<child_started>();
  }

  /// Whether what is posted runs.
  bool is_awake() {
    auto ran = std::make_shared<std::promise<void>>();
    loop.post([ran] { ran->set_value(); });
    return ran->get_future().wait_for(patience) == std::future_status::ready;
  }
};

/// A copy of this process that does nothing: what every child is between its
/// fork and its exec, for as long as the test likes.
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

BOOST_AUTO_TEST_CASE(tells_of_a_child_from_its_start_to_its_end) {
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

// Whoever was forked and has not become a program yet has a copy of every
// descriptor; one that is closed here stays open there. The kernel goes on
// telling of it then, under a number that may be another child's by now.
BOOST_AUTO_TEST_CASE(a_copy_of_an_ended_childs_descriptor_ends_nobody_else) {
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
