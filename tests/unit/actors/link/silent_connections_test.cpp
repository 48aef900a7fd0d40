#include "actors/link/silent_connections.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Is one connection, of which the test holds both ends.
struct joined {
  unique_fd here, there;

  joined() {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    here = unique_fd{ends[0]};
    there = unique_fd{ends[1]};
  }

  bool ended() const {
    pollfd item{there.get(), POLLIN, 0};
    return ::poll(&item, 1, 0) == 1 && (item.revents & POLLHUP) != 0;
  }
};

constexpr silent_connections::clock::time_point first_look{1h};

} // namespace

BOOST_AUTO_TEST_SUITE(silent_peers)

BOOST_AUTO_TEST_CASE(a_connection_that_says_nothing_ends) {
  silent_connections all;
  joined silent, speaking;
  all.accepted(silent.here.get(), first_look);
  all.accepted(speaking.here.get(), first_look);
  all.forget(speaking.here.get());
  auto due = first_look + silent_connections::patience;
  BOOST_TEST((all.next_due() == due));
  all.end_overdue(due - 1ms);
  BOOST_TEST(!silent.ended());
  all.end_overdue(due);
  BOOST_TEST(silent.ended());
  BOOST_TEST(!speaking.ended());
  BOOST_TEST(all.size() == 0u);
  BOOST_TEST(!all.next_due().has_value());
}

BOOST_AUTO_TEST_CASE(silent_connections_are_bounded_in_number) {
  silent_connections all;
  std::vector<joined> many(silent_connections::most + 10);
  auto when = first_look;
  for (auto& x : many)
    all.accepted(x.here.get(), when += 1ms);
  BOOST_TEST(all.size() == silent_connections::most);
  for (std::size_t i = 0; i < many.size(); ++i)
    BOOST_TEST(many[i].ended() == (i < 10));
}

BOOST_AUTO_TEST_CASE(a_descriptor_that_was_reused_ends_nobody) {
  silent_connections all;
  joined next;
  int number = -1;
  {
    joined former;
    number = former.here.get();
    all.accepted(number, first_look);
  }
  // Another connection has its number before this is known.
  BOOST_REQUIRE(::dup2(next.here.get(), number) == number);
  all.end_overdue(first_look + silent_connections::patience);
  BOOST_TEST(!next.ended());
  ::close(number);
}

BOOST_AUTO_TEST_SUITE_END()
