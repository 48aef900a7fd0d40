// ZeroMQ's threads busy-poll where they are asked to, and no other threads do.
#include "nodes/daemons/zmq_busy_poll.hpp"

#include <boost/test/unit_test.hpp>

#include <zmq.hpp>

#include <cerrno>
#include <chrono>
#include <thread>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Two sockets over TCP. Their messages pass through ZeroMQ's thread.
struct pair_of_sockets {
  zmq::context_t context;
  zmq::socket_t there{context, zmq::socket_type::pair};
  zmq::socket_t here{context, zmq::socket_type::pair};

  pair_of_sockets() {
    there.set(zmq::sockopt::linger, 0);
    here.set(zmq::sockopt::linger, 0);
    there.bind("tcp://127.0.0.1:*");
    here.connect(there.get(zmq::sockopt::last_endpoint));
  }

  void there_and_back(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      zmq::message_t what{64};
      here.send(what, zmq::send_flags::none);
      BOOST_REQUIRE(there.recv(what).has_value());
      there.send(what, zmq::send_flags::none);
      BOOST_REQUIRE(here.recv(what).has_value());
    }
  }
};

/// Runs `body` on a thread of this name.
template <class Body>
void on_thread(const char* name, const Body& body) {
  std::thread{[&] {
    ::pthread_setname_np(::pthread_self(), name);
    body();
  }}.join();
}

/// An epoll descriptor that watches an event.
struct watched_event {
  int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int epoll = ::epoll_create1(EPOLL_CLOEXEC);

  watched_event() {
    epoll_event what{};
    what.events = EPOLLIN;
    what.data.fd = event;
    BOOST_REQUIRE(::epoll_ctl(epoll, EPOLL_CTL_ADD, event, &what) == 0);
  }
  ~watched_event() {
    ::close(epoll);
    ::close(event);
  }
  void happen() const { BOOST_REQUIRE(::eventfd_write(event, 1) == 0); }
  int wait(int timeout) const {
    epoll_event got{};
    return ::epoll_wait(epoll, &got, 1, timeout);
  }
};

constexpr auto io_thread = "ZMQbg/IO/7";

} // namespace

BOOST_AUTO_TEST_SUITE(zmq_busy_poll_)

BOOST_AUTO_TEST_CASE(zeromqs_thread_finds_messages_by_polling) {
  zmq_busy_poll looks{{1ms, 1ms}};
  pair_of_sockets pair;
  pair.there_and_back(500);
  if (zmq_busy_poll::possible())
    BOOST_TEST(looks.found() > 100u);
  else
    BOOST_TEST(looks.found() == 0u);
}

BOOST_AUTO_TEST_CASE(a_limit_of_zero_makes_the_thread_sleep) {
  zmq_busy_poll looks{{}};
  pair_of_sockets pair;
  pair.there_and_back(100);
  BOOST_TEST(looks.busy_polled() == 0u);
  if (zmq_busy_poll::possible())
    BOOST_TEST(looks.waited() > 100u);
}

BOOST_AUTO_TEST_CASE(other_threads_sleep_as_usual) {
  zmq_busy_poll looks{{1ms, 1ms}};
  watched_event x;
  on_thread("ZMQbg/Reaper", [&] { BOOST_TEST(x.wait(1) == 0); });
  on_thread("civetweb", [&] { BOOST_TEST(x.wait(1) == 0); });
  BOOST_TEST(looks.waited() == 0u);
  x.happen();
  BOOST_TEST(x.wait(-1) == 1);
  BOOST_TEST(looks.waited() == 0u);
}

BOOST_AUTO_TEST_CASE(a_wait_ends_as_the_c_librarys_does) {
  if (!zmq_busy_poll::possible())
    return;
  zmq_busy_poll looks{{1ms, 1ms}};
  watched_event x;
  on_thread(io_thread, [&] {
    auto began = std::chrono::steady_clock::now();
    BOOST_TEST(x.wait(20) == 0);
    BOOST_TEST((std::chrono::steady_clock::now() - began >= 20ms));
    BOOST_TEST(looks.waited() == 1u);
    BOOST_TEST(looks.busy_polled() == 1u);
    BOOST_TEST(looks.found() == 0u);
    // A timeout of 0 only queries.
    BOOST_TEST(x.wait(0) == 0);
    BOOST_TEST(looks.waited() == 1u);
    epoll_event got{};
    BOOST_TEST(::epoll_wait(-1, &got, 1, -1) == -1);
    BOOST_TEST(errno == EBADF);
    BOOST_TEST(::epoll_wait(x.epoll, &got, 0, -1) == -1);
    BOOST_TEST(errno == EINVAL);
    x.happen();
    BOOST_TEST(x.wait(-1) == 1);
  });
}

BOOST_AUTO_TEST_CASE(an_idle_thread_keeps_no_other_from_polling) {
  if (!zmq_busy_poll::possible())
    return;
  auto found = false;
  // On a busy machine the event may come too late, and the test tries again.
  auto until = std::chrono::steady_clock::now() + 2min;
  while (!found && std::chrono::steady_clock::now() < until) {
    zmq_busy_poll looks{{15ms, 15ms}};
    watched_event at_rest, busy;
    on_thread(io_thread, [&] { (void)at_rest.wait(50); });
    std::thread other{[&] {
      while (looks.waited() < 2)
        continue;
      // Longer than the poll of a thread that has seen nothing but a long wait.
      auto began = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - began < 200us)
        continue;
      busy.happen();
    }};
    on_thread(io_thread, [&] { BOOST_TEST(busy.wait(-1) == 1); });
    other.join();
    found = looks.found() == 1;
  }
  BOOST_TEST(found);
}

BOOST_AUTO_TEST_SUITE_END()
