// ZeroMQ's threads signal each other in memory, and a sleeping thread is woken.
#include "nodes/daemons/zmq_busy_poll.hpp"
#include "nodes/daemons/zmq_signals.hpp"

#include <boost/test/unit_test.hpp>

#include <zmq.hpp>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

constexpr int long_enough_ms = 20'000;

/// Two sockets of one process. A message is received at once, except for its
/// signal.
struct two_sockets {
  zmq::context_t context;
  zmq::socket_t from{context, zmq::socket_type::pair};
  zmq::socket_t to{context, zmq::socket_type::pair};
  int fd = to.get(zmq::sockopt::fd);

  two_sockets() {
    to.bind("inproc://here");
    from.connect("inproc://here");
    (void)receive();
  }

  void send() {
    BOOST_REQUIRE(from.send(zmq::message_t{8}, zmq::send_flags::none));
  }
  bool receive() {
    zmq::message_t what;
    return to.recv(what, zmq::recv_flags::dontwait).has_value();
  }
};

/// Two sockets of which the receiving one is signalled in memory.
struct signals_in_memory {
  zmq_busy_poll looks{{}};
  two_sockets x;
  zmq_signal* signal = zmq_signal::of(x.fd);
};

/// Returns whether the kernel reports a descriptor as readable. It bypasses
/// this program's own poll().
bool kernel_told(int fd) {
  pollfd item{fd, POLLIN, 0};
  timespec now{};
  return ::ppoll(&item, 1, &now, nullptr) == 1;
}

int wait(int fd, int timeout) {
  pollfd item{fd, POLLIN, 0};
  return ::poll(&item, 1, timeout);
}

/// A thread that sleeps until a descriptor is readable.
class waiting_thread {
public:
  explicit waiting_thread(int fd)
      : thread_{[this, fd] {
          id_ = static_cast<int>(::syscall(SYS_gettid));
          found_ = wait(fd, long_enough_ms);
        }} {
    while (!sleeps())
      std::this_thread::yield();
  }
  ~waiting_thread() { thread_.join(); }

  int found() {
    thread_.join();
    thread_ = std::thread{[] {}};
    return found_;
  }

private:
  bool sleeps() const {
    if (id_ == 0)
      return false;
    std::ifstream file{"/proc/self/task/" + std::to_string(id_) + "/syscall"};
    long number = -1;
    file >> number; // "running" is not a number
    return file && number == SYS_poll;
  }

  std::atomic<int> id_ = 0;
  int found_ = -1;
  std::thread thread_; // last, because it uses the others
};

} // namespace

BOOST_AUTO_TEST_SUITE(zmq_signals_)

#define WHERE_POSSIBLE                                                         \
  if (!zmq_busy_poll::possible())                                              \
  return

BOOST_FIXTURE_TEST_CASE(an_awake_thread_is_signalled_in_memory,
                        signals_in_memory) {
  WHERE_POSSIBLE;
  BOOST_REQUIRE(signal != nullptr);
  BOOST_TEST(!signal->raised());
  BOOST_TEST(wait(x.fd, 0) == 0);
  for (int i = 0; i < 3; ++i) {
    x.send();
    BOOST_TEST(signal->raised());
    BOOST_TEST(!kernel_told(x.fd));
    BOOST_TEST(wait(x.fd, 0) == 1);
    BOOST_TEST(wait(x.fd, -1) == 1);
    BOOST_TEST(x.receive());
    BOOST_TEST(!x.receive());
    BOOST_TEST(!signal->raised());
  }
}

BOOST_FIXTURE_TEST_CASE(a_sleeping_thread_is_woken, signals_in_memory) {
  WHERE_POSSIBLE;
  for (int i = 0; i < 3; ++i) {
    waiting_thread sleeper{x.fd};
    x.send();
    BOOST_TEST(sleeper.found() == 1);
    BOOST_TEST(x.receive());
    BOOST_TEST(!x.receive());
    BOOST_TEST(!kernel_told(x.fd));
  }
}

BOOST_FIXTURE_TEST_CASE(a_stale_signal_from_the_kernel_wakes_no_thread,
                        signals_in_memory) {
  WHERE_POSSIBLE;
  BOOST_REQUIRE(signal != nullptr);
  (void)zmq_signal::sleep([&](auto&& body) { body(*signal); },
                          [&](bool raised) {
                            BOOST_TEST(!raised);
                            x.send();
                            return 0;
                          });
  BOOST_TEST(kernel_told(x.fd));
  BOOST_TEST(x.receive());
  BOOST_TEST(!x.receive());
  // A sender may have seen a sleeper that has woken up meanwhile.
  std::uint64_t one = 1;
  BOOST_REQUIRE(::syscall(SYS_write, x.fd, &one, sizeof(one)) == sizeof(one));
  auto began = std::chrono::steady_clock::now();
  BOOST_TEST(wait(x.fd, 20) == 0);
  BOOST_TEST((std::chrono::steady_clock::now() - began >= 20ms));
  BOOST_TEST(!kernel_told(x.fd));
}

BOOST_FIXTURE_TEST_CASE(poll_reports_signals_among_other_descriptors,
                        signals_in_memory) {
  WHERE_POSSIBLE;
  auto own = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  BOOST_TEST(zmq_signal::of(own) == nullptr);
  auto ask = [&](int timeout) {
    pollfd items[] = {{own, POLLIN, 0}, {x.fd, POLLIN, 0}, {-1, POLLIN, 0}};
    auto got = ::poll(items, 3, timeout);
    return std::vector<int>{got, items[0].revents, items[1].revents};
  };
  BOOST_TEST(ask(1) == (std::vector<int>{0, 0, 0}),
             boost::test_tools::per_element{});
  x.send();
  BOOST_TEST(ask(-1) == (std::vector<int>{1, 0, POLLIN}),
             boost::test_tools::per_element{});
  BOOST_REQUIRE(::eventfd_write(own, 1) == 0);
  BOOST_TEST(ask(-1) == (std::vector<int>{2, POLLIN, POLLIN}),
             boost::test_tools::per_element{});
  BOOST_TEST(x.receive());
  BOOST_TEST(ask(0) == (std::vector<int>{1, POLLIN, 0}),
             boost::test_tools::per_element{});
  ::close(own);
}

BOOST_AUTO_TEST_CASE(without_busy_poll_signals_go_through_the_kernel) {
  two_sockets x;
  BOOST_TEST(zmq_signal::of(x.fd) == nullptr);
  x.send();
  BOOST_TEST(kernel_told(x.fd));
  BOOST_TEST(x.receive());
}

BOOST_AUTO_TEST_CASE(a_descriptor_that_is_closed_is_forgotten) {
  WHERE_POSSIBLE;
  auto fd = -1;
  {
    zmq_busy_poll looks{{}};
    two_sockets x;
    fd = x.fd;
    BOOST_TEST(zmq_signal::of(fd) != nullptr);
  }
  BOOST_TEST(zmq_signal::of(fd) == nullptr);
}

/// Each socket is handed to one thread, which then waits for all of them.
BOOST_AUTO_TEST_CASE(many_sockets_end_at_once) {
  zmq_busy_poll looks{{1ms, 1ms}};
  for (int round = 0; round < 10; ++round) {
    zmq::context_t context;
    std::vector<zmq::socket_t> all;
    std::string endpoint;
    for (int i = 0; i < 60; ++i) {
      zmq::socket_t x{context, zmq::socket_type::pair};
      x.set(zmq::sockopt::linger, 0);
      if (i % 2 == 0)
        x.bind("tcp://127.0.0.1:*");
      else
        x.connect(endpoint);
      endpoint = x.get(zmq::sockopt::last_endpoint);
      all.push_back(std::move(x));
    }
  }
}

/// Two threads and one of ZeroMQ's busy-poll and sleep in turn. No message may
/// leave one asleep.
BOOST_AUTO_TEST_CASE(no_signal_is_lost_between_polling_and_sleeping) {
  zmq_busy_poll looks{{30us, 30us}};
  zmq::context_t context;
  constexpr int rounds = 20'000;
  // Returns how many messages it received from the other side.
  auto talk = [&](zmq::socket_t socket, bool begins) {
    zmq::message_t what;
    for (int i = 0; i < rounds; ++i) {
      if (begins)
        socket.send(zmq::message_t{8}, zmq::send_flags::none);
      auto patience = i % 7;
      auto until = std::chrono::steady_clock::now() + 10us * patience;
      auto got = socket.recv(what, zmq::recv_flags::dontwait);
      while (!got && std::chrono::steady_clock::now() < until)
        got = socket.recv(what, zmq::recv_flags::dontwait);
      if (!got && !socket.recv(what))
        return i;
      if (!begins)
        socket.send(zmq::message_t{8}, zmq::send_flags::none);
    }
    return rounds;
  };
  zmq::socket_t a{context, zmq::socket_type::pair};
  zmq::socket_t b{context, zmq::socket_type::pair};
  for (auto* x : {&a, &b})
    x->set(zmq::sockopt::rcvtimeo, long_enough_ms);
  a.bind("tcp://127.0.0.1:*");
  b.connect(a.get(zmq::sockopt::last_endpoint));
  auto answered = 0;
  std::thread other{[&] { answered = talk(std::move(b), false); }};
  BOOST_TEST(talk(std::move(a), true) == rounds);
  other.join();
  BOOST_TEST(answered == rounds);
}

BOOST_AUTO_TEST_SUITE_END()
