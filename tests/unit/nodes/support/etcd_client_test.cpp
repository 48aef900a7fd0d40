// The client against faulty servers. tests/e2e/leaders.sh uses a real etcd.
#include "nodes/support/etcd_client.hpp"

#include "actors/link/system.hpp"

#include <boost/test/unit_test.hpp>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

const std::string nothing_seen =
    R"({"responses":[{"response_range":{}},{"response_range":{}}]})";

std::string page(const std::string& body,
                 const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

/// Accepts one connection after another and gives each request the same answer,
/// or none if it is empty.
class server {
public:
  std::atomic<unsigned> connections = 0;
  std::atomic<unsigned> questions = 0;
  /// Closes each connection after one answer, without announcing it.
  std::atomic<bool> closes = false;

  explicit server(std::string says) : says_(std::move(says)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    BOOST_REQUIRE(
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    BOOST_REQUIRE(::listen(listener_, 8) == 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    BOOST_REQUIRE(::pipe(end_) == 0);
    thread_ = std::thread{[this] { serve(); }};
  }
  ~server() {
    ::close(end_[1]);
    thread_.join();
    ::close(end_[0]);
    ::close(listener_);
  }

  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_);
  }

private:
  /// Returns false when the test is over.
  bool readable(int fd) const {
    pollfd what[] = {{fd, POLLIN, 0}, {end_[0], POLLIN, 0}};
    ::poll(what, 2, -1);
    return what[1].revents == 0;
  }

  void serve() {
    while (readable(listener_)) {
      auto fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      ++connections;
      answer(fd);
      ::close(fd);
    }
  }

  void answer(int fd) {
    std::string got;
    char bytes[4096];
    while (readable(fd)) {
      auto n = ::read(fd, bytes, sizeof(bytes));
      if (n <= 0)
        return;
      got.append(bytes, static_cast<std::size_t>(n));
      if (got.find("\r\n\r\n") == got.npos || !got.ends_with('}'))
        continue;
      got.clear();
      ++questions;
      if (::send(fd, says_.data(), says_.size(), MSG_NOSIGNAL) < 0 || closes)
        return;
    }
  }

  std::string says_;
  int listener_ = -1;
  int end_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

struct asking {
  system_config config;
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  std::shared_ptr<etcd_access> client;
  std::uint64_t last = 0;

  void use(const std::string& members) {
    auto parsed = parse_etcd_members(members);
    BOOST_REQUIRE(parsed.ok());
    client = make_etcd_client(std::move(*parsed), "/vgpu/");
  }

  void say(std::chrono::milliseconds within = 5s) {
    client->ask(++last, etcd::look{}, within,
                caf::actor_cast<etcd_listener>(self));
  }

  etcd::answer hear() {
    etcd::answer out;
    self->receive(
        [&](const etcd_answer_ptr& x) {
          BOOST_TEST(x->number == last);
          out = x->what;
        },
        caf::after(10s) >> [] { BOOST_FAIL("no answer"); });
    return out;
  }

  etcd::answer ask(std::chrono::milliseconds within = 5s) {
    say(within);
    return hear();
  }

  std::string failure(std::chrono::milliseconds within = 5s) {
    auto got = ask(within);
    auto* no = std::get_if<etcd::failed>(&got);
    BOOST_REQUIRE(no != nullptr);
    BOOST_TEST(!no->why.empty());
    return no->why;
  }

  bool good(std::chrono::milliseconds within = 5s) {
    return std::holds_alternative<etcd::seen>(ask(within));
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(etcd_clients, asking)

BOOST_AUTO_TEST_CASE(a_connection_serves_many_questions) {
  server etcd{page(nothing_seen)};
  use(etcd.url());
  for (auto i = 0; i < 20; ++i)
    BOOST_TEST(good());
  BOOST_TEST(etcd.questions == 20u);
  BOOST_TEST(etcd.connections == 1u);
}

BOOST_AUTO_TEST_CASE(a_closed_connection_is_opened_again) {
  server etcd{page(nothing_seen)};
  etcd.closes = true;
  use(etcd.url());
  for (auto i = 0; i < 5; ++i)
    BOOST_TEST(good());
  BOOST_TEST(etcd.connections == 5u);
}

BOOST_AUTO_TEST_CASE(an_answer_in_chunks_is_read) {
  std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (auto x : nothing_seen)
    chunks += std::string{"1\r\n"} + x + "\r\n";
  server etcd{chunks + "0\r\n\r\n"};
  use(etcd.url());
  BOOST_TEST(good());
  BOOST_TEST(good());
}

BOOST_AUTO_TEST_CASE(a_silent_server_is_waited_for_in_bounded_time) {
  server etcd{""};
  use(etcd.url());
  failure(100ms);
  // A request that was followed by another is dropped.
  say(1h);
  failure(100ms);
}

BOOST_AUTO_TEST_CASE(a_missing_server_is_reported_at_once) {
  std::string url;
  {
    server gone{""};
    url = gone.url();
  }
  use(url);
  auto why = failure();
  BOOST_TEST(why.find(url.substr(7)) != why.npos, why);
}

BOOST_AUTO_TEST_CASE(noise_is_reported_as_a_failure) {
  for (std::string says :
       {page("no json"), page("{}"), page("oh no", "500 Oh"), page(""),
        std::string{"SSH-2.0-x\r\n\r\n"}, std::string(100'000, 'x'),
        "HTTP/1.1 200 OK\r\n" + std::string(100'000, 'x'),
        std::string{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"},
        std::string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "ffffffffffff\r\n"}}) {
    server etcd{says};
    use(etcd.url());
    failure(500ms);
    client.reset();
  }
}

BOOST_AUTO_TEST_CASE(an_announced_body_takes_no_memory_before_it_comes) {
  for (std::string length : {"8388609", "1000000000000", "9223372036854775807",
                             "18446744073709551615", "99999999999999999999"}) {
    server etcd{"HTTP/1.1 200 OK\r\nContent-Length: " + length + "\r\n\r\n{}"};
    use(etcd.url());
    failure();
    // The client goes on.
    failure();
    client.reset();
  }
}

BOOST_AUTO_TEST_CASE(an_answer_may_come_in_pieces_and_have_no_body) {
  server etcd{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
  use(etcd.url());
  failure();
  failure();
}

BOOST_AUTO_TEST_CASE(where_one_member_fails_another_is_asked) {
  server silent{""};
  server well{page(nothing_seen)};
  use(silent.url() + "," + well.url());
  failure(100ms);
  BOOST_TEST(good());
  BOOST_TEST(good());
  BOOST_TEST(silent.questions == 1u);
}

BOOST_AUTO_TEST_CASE(a_client_can_end_during_a_request) {
  server etcd{""};
  use(etcd.url());
  say(1h);
  client.reset();
}

BOOST_AUTO_TEST_CASE(members_are_given_as_urls) {
  auto two = parse_etcd_members("http://h:1,http://[::1]:2/");
  BOOST_REQUIRE(two.ok());
  BOOST_REQUIRE(two->size() == 2u);
  BOOST_TEST((*two)[0].host == "h");
  BOOST_TEST((*two)[1].host == "::1");
  BOOST_TEST((*two)[1].port == "2");
  BOOST_TEST((*two)[1].authority == "[::1]:2");
  for (std::string bad :
       {"", "h:1", "http://", "http://h", "http://h:", "http://:1",
        "http://h:0", "http://h:65536", "http://h:x", "https://h:1",
        "http://a b:1", "http://h/x:1", "http://h:1,", ",http://h:1",
        "http://h:1,tcp://h:2"})
    BOOST_TEST(!parse_etcd_members(bad).ok(), bad);
  auto why = parse_etcd_members("http://h:1,https://g:2").why().what;
  BOOST_TEST(why.find("'https://g:2'") != why.npos, why);
  std::string many = "http://h:1";
  for (auto i = 2; i <= 17; ++i)
    many += ",http://h:" + std::to_string(i);
  BOOST_TEST(!parse_etcd_members(many).ok());
}

BOOST_AUTO_TEST_SUITE_END()
