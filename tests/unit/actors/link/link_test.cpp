#include "actors/link/link.hpp"

#include "actors/link/link_socket.hpp"
#include "actors/link/log.hpp"
#include "actors/link/system.hpp"
#include "actors/link/unhandled.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Longer than any step takes, even on a busy machine.
constexpr auto patience = 20s;

/// One side: a link and the mailbox of its consumer.
template <class Link>
struct any_side {
  caf::scoped_actor self;
  Link link;
  std::string endpoint;

  any_side(caf::actor_system& system, auto opened) : self(system) {
    BOOST_REQUIRE_MESSAGE(opened.ok(), (opened ? "" : opened.why().what));
    link = opened->actor;
    endpoint = opened->endpoint;
  }

  ~any_side() { stop(); }

  void stop() {
    if (!link)
      return;
    self->send_exit(link, caf::exit_reason::user_shutdown);
    self->wait_for(link);
    link = nullptr;
  }

  /// Returns the next message of this kind, and skips others before it.
  template <class T>
  T next() {
    auto out = next_within<T>(patience);
    BOOST_REQUIRE(out);
    return out;
  }

  /// Like next(), but returns null if no message comes in time.
  template <class T>
  T next_within(std::chrono::milliseconds time) {
    T out;
    auto in_time = true;
    while (!out && in_time)
      self->receive([&](T& x) { out = x; },
                    caf::others >>
                        [](caf::message_view&) -> caf::result<caf::message> {
                      return caf::message{};
                    },
                    caf::after(time) >> [&] { in_time = false; });
    return out;
  }
};

/// A side that decodes messages.
struct side : any_side<link_actor> {
  side(caf::actor_system& system, zmq::context_t& zmq, link_options options)
      : any_side(system, spawn_link(system, zmq, std::move(options))) {
    self->send(link, consumer_of(self));
  }

  void say(std::string peer, control::envelope what) {
    self->send(link, std::make_shared<const outgoing>(
                         outgoing{std::move(peer), std::move(what)}));
  }
};

/// A side that does not decode messages.
struct raw_side : any_side<raw_link_actor> {
  raw_side(caf::actor_system& system, zmq::context_t& zmq, link_options options)
      : any_side(system, spawn_raw_link(system, zmq, std::move(options))) {
    self->send(link, caf::actor_cast<raw_consumer>(self));
  }
};

struct fixture {
  zmq::context_t zmq;
  system_config config;
  caf::actor_system system{config};
  std::string dir;

  fixture() {
    spdlog::set_level(spdlog::level::off);
    std::string path = std::filesystem::temp_directory_path() / "linkXXXXXX";
    dir = ::mkdtemp(path.data());
  }
  ~fixture() { std::filesystem::remove_all(dir); }

  std::string socket() const { return "ipc://" + dir + "/s"; }

  link_options server(std::string endpoint = "tcp://127.0.0.1:*") {
    link_options out;
    out.as = link_options::form::bind;
    out.endpoint = std::move(endpoint);
    out.name = "manager";
    return out;
  }

  link_options client(std::string endpoint) {
    link_options out;
    out.endpoint = std::move(endpoint);
    out.name = "command";
    out.greeting = control::hello{1, 1, "test", control::role::command};
    return out;
  }

  /// Returns this process's TCP connections.
  static std::vector<int> connections() {
    std::vector<int> out;
    for (auto& x : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      auto fd = std::stoi(x.path().filename());
      sockaddr_storage peer{};
      socklen_t size = sizeof(peer);
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
          peer.ss_family == AF_INET)
        out.push_back(fd);
    }
    return out;
  }

  /// Returns the congestion control of each of them.
  static std::vector<std::string> rules_of_connections() {
    std::vector<std::string> out;
    for (auto fd : connections()) {
      std::array<char, 32> rule{};
      socklen_t length = rule.size();
      if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, rule.data(), &length) ==
          0)
        out.emplace_back(rule.data());
    }
    return out;
  }

  /// Returns how many of them the kernel probes while they are idle, and ends
  /// when what was sent is not acknowledged.
  static int bounded_connections() {
    auto option = [](int fd, int level, int name) {
      auto out = 0;
      socklen_t size = sizeof out;
      BOOST_REQUIRE(::getsockopt(fd, level, name, &out, &size) == 0);
      return out;
    };
    auto out = 0;
    for (auto fd : connections())
      out += option(fd, SOL_SOCKET, SO_KEEPALIVE) != 0 &&
             option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 1 &&
             option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 3000;
    return out;
  }

  /// Returns a peer that sends any bytes.
  zmq::socket_t raw(const std::string& endpoint) {
    zmq::socket_t out{zmq, zmq::socket_type::dealer};
    out.set(zmq::sockopt::linger, 0);
    out.connect(endpoint);
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(links, fixture)

BOOST_AUTO_TEST_CASE(the_greeting_goes_first_and_answers_come_back) {
  for (auto endpoint : {socket(), std::string{"tcp://127.0.0.1:*"}}) {
    side a{system, zmq, server(endpoint)};
    side b{system, zmq, client(a.endpoint)};
    auto in = a.next<incoming_ptr>();
    BOOST_TEST(std::holds_alternative<control::hello>(in->what.body));
    BOOST_TEST(in->what.from == "command");
    a.say(in->peer, {"manager", 0, control::welcome{}});
    auto back = b.next<incoming_ptr>();
    BOOST_TEST(std::holds_alternative<control::welcome>(back->what.body));
  }
}

BOOST_AUTO_TEST_CASE(both_sides_learn_of_a_connections_end) {
  side a{system, zmq, server(socket())};
  std::string peer;
  {
    side b{system, zmq, client(a.endpoint)};
    peer = a.next<incoming_ptr>()->peer;
  }
  auto gone = a.next<link_event_ptr>();
  BOOST_TEST((gone->what == link_event::kind::down));
  BOOST_TEST(gone->peer == peer);
  // A message to the lost peer reports the loss again, once ZeroMQ has taken
  // the connection down.
  link_event_ptr again;
  for (int i = 0; i < 100 && !again; ++i) {
    a.say(peer, {"manager", 0, control::done{}});
    again = a.next_within<link_event_ptr>(100ms);
  }
  BOOST_REQUIRE(again);
  BOOST_TEST((again->what == link_event::kind::down));
}

/// All sockets of a context share one thread, which reports connections.
BOOST_AUTO_TEST_CASE(a_socket_that_closes_with_its_peer_stops_no_other) {
  zmq::context_t far;
  for (int i = 0; i < 200; ++i) {
    auto peer = std::make_unique<link_socket>(far, server(socket()));
    auto mine = std::make_unique<link_socket>(zmq, client(peer->endpoint()));
    for (auto up = false; !up; up = !mine->connection_changes().empty())
      mine->sleep(-1, true);
    std::thread other{[&] { peer.reset(); }};
    mine.reset();
    other.join();
  }
  side a{system, zmq, server()};
  side b{system, zmq, client(a.endpoint)};
  BOOST_TEST(a.next<incoming_ptr>()->what.from == "command");
}

BOOST_AUTO_TEST_CASE(a_client_greets_again_when_its_server_is_back) {
  auto a = std::make_unique<side>(system, zmq, server(socket()));
  side b{system, zmq, client(a->endpoint)};
  a->next<incoming_ptr>();
  BOOST_TEST((b.next<link_event_ptr>()->what == link_event::kind::up));
  a.reset();
  BOOST_TEST((b.next<link_event_ptr>()->what == link_event::kind::down));
  BOOST_TEST((b.next<link_event_ptr>()->what == link_event::kind::unreachable));
  a = std::make_unique<side>(system, zmq, server(socket()));
  auto in = a->next<incoming_ptr>();
  BOOST_TEST(std::holds_alternative<control::hello>(in->what.body));
}

BOOST_AUTO_TEST_CASE(unreadable_messages_are_dropped) {
  side a{system, zmq, server()};
  auto bad = raw(a.endpoint);
  auto good = control::encode({"x", 1, control::status_request{}});
  bad.send(zmq::message_t{}, zmq::send_flags::none);
  bad.send(zmq::str_buffer("noise"), zmq::send_flags::none);
  bad.send(zmq::buffer(std::string(4096, '\xff')), zmq::send_flags::none);
  bad.send(zmq::buffer(good.data(), good.size() - 8), zmq::send_flags::none);
  for (auto i = 0; i < 6; ++i) // six frames in place of one
    bad.send(zmq::buffer(good.data(), good.size()),
             i < 5 ? zmq::send_flags::sndmore : zmq::send_flags::none);
  // A payload after a message that has none.
  bad.send(zmq::buffer(good.data(), good.size()), zmq::send_flags::sndmore);
  bad.send(zmq::str_buffer("payload"), zmq::send_flags::none);
  bad.send(good, zmq::send_flags::none);
  // The first thing that reaches the consumer is the good message.
  auto in = a.next<incoming_ptr>();
  BOOST_TEST(std::holds_alternative<control::status_request>(in->what.body));
}

BOOST_AUTO_TEST_CASE(an_unreadable_request_is_answered) {
  side a{system, zmq, server()};
  auto bad = raw(a.endpoint);
  control::refusal why{CUDA_SUCCESS, std::string(100'000, 'x'), {}};
  bad.send(control::encode({"x", 71, why}), zmq::send_flags::none);
  zmq::message_t answer;
  bad.set(zmq::sockopt::rcvtimeo, 20'000);
  BOOST_REQUIRE(bad.recv(answer).has_value());
  auto got = control::decode(parcel{"", std::move(answer), {}});
  auto& said = std::get<control::envelope>(got);
  BOOST_TEST(said.request == 71u);
  BOOST_TEST(std::holds_alternative<control::refusal>(said.body));
}

BOOST_AUTO_TEST_CASE(a_frame_that_is_too_large_ends_its_connection) {
  auto options = server();
  options.largest_frame = 1 << 16;
  side a{system, zmq, options};
  auto bad = raw(a.endpoint);
  auto good = control::encode({"x", 1, control::status_request{}});
  bad.send(zmq::buffer(good.data(), good.size()), zmq::send_flags::none);
  auto peer = a.next<incoming_ptr>()->peer;
  bad.send(zmq::message_t{1 << 17}, zmq::send_flags::none);
  auto gone = a.next<link_event_ptr>();
  BOOST_TEST((gone->what == link_event::kind::down));
  BOOST_TEST(gone->peer == peer);
}

BOOST_AUTO_TEST_CASE(the_end_of_each_of_many_peers_is_reported) {
  side a{system, zmq, server(socket())};
  for (auto i = 0; i < 50; ++i) {
    auto peer = raw(a.endpoint);
    peer.send(control::encode({"x", 1, control::done{}}),
              zmq::send_flags::none);
    auto name = a.next<incoming_ptr>()->peer;
    peer.close();
    BOOST_REQUIRE(a.next<link_event_ptr>()->peer == name);
  }
}

/// Connections end while nobody reads, others get their descriptors, and the
/// messages of both wait together.
BOOST_AUTO_TEST_CASE(a_reused_descriptor_ends_only_its_former_connection) {
  link_socket hub{zmq, server(socket())};
  auto hello = control::encode({"x", 1, control::done{}});
  std::vector<zmq::socket_t> standing;
  std::set<std::string> known;
  std::set<std::string> ended;
  auto look = [&] {
    for (auto& change : hub.connection_changes())
      if (change.what == link_event::kind::down)
        ended.insert(change.peer);
  };
  constexpr auto rounds = 20;
  for (auto i = 0; i < rounds; ++i) {
    {
      auto brief = raw(hub.endpoint());
      brief.set(zmq::sockopt::linger, -1);
      for (auto n = 0; n < 3; ++n)
        brief.send(zmq::buffer(hello.data(), hello.size()),
                   zmq::send_flags::none);
    }
    // It says nothing, and ends.
    auto silent = raw(hub.endpoint());
    silent.close();
    standing.push_back(raw(hub.endpoint()));
    standing.back().send(zmq::buffer(hello.data(), hello.size()),
                         zmq::send_flags::none);
  }
  auto until = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < until &&
         (known.size() < 2 * rounds || ended.size() < rounds)) {
    (void)hub.sleep(-1, false);
    look();
    while (auto in = hub.receive())
      known.insert(in->peer());
  }
  BOOST_TEST(known.size() == 2u * rounds);
  BOOST_TEST(ended.size() == 1u * rounds);
  // Those that were not reported have a connection.
  for (const auto& peer : known) {
    dispatch out{peer, zmq::message_t{hello.data(), hello.size()}, {}};
    BOOST_TEST(
        (ended.contains(peer) || hub.send(out) == link_socket::sent::yes));
  }
}

BOOST_AUTO_TEST_CASE(a_look_passes_on_what_has_arrived) {
  side a{system, zmq, server()};
  auto peer = raw(a.endpoint);
  auto good = control::encode({"x", 1, control::status_request{}});
  constexpr auto sent = 500;
  for (auto i = 0; i < sent; ++i)
    peer.send(zmq::buffer(good.data(), good.size()), zmq::send_flags::none);
  a.next<incoming_ptr>();
  // Each look is answered, after messages and where there are none.
  auto messages = 1;
  for (auto looks = 0; looks < 2 || messages < sent;) {
    a.self->send(a.link, link_look{consumer_of(a.self)});
    for (auto looked = false; !looked;)
      a.self->receive([&](const incoming_ptr&) { ++messages; },
                      [&](const link_event_ptr& x) {
                        looked = x->what == link_event::kind::looked;
                      },
                      caf::after(patience) >>
                          [&] {
                            looked = true;
                            BOOST_REQUIRE_MESSAGE(false,
                                                  "the look is not answered");
                          });
    ++looks;
  }
  BOOST_TEST(messages == sent);
}

BOOST_AUTO_TEST_CASE(a_data_link_does_not_decode_messages) {
  raw_side a{system, zmq, server()};
  auto peer = raw(a.endpoint);
  auto head = control::encode({"x", 1, control::done{}});
  peer.send(zmq::buffer(head.data(), head.size()), zmq::send_flags::sndmore);
  peer.send(zmq::str_buffer("payload"), zmq::send_flags::none);
  auto in = a.next<parcel_ptr>();
  BOOST_TEST(in->bulk().size() == 7u);
  BOOST_TEST(in->words().size() == head.size() / 8);
  auto answer = std::make_shared<dispatch>();
  answer->peer = in->peer();
  answer->head = std::move(head);
  answer->bulk = lend_frame(in->bulk(), in);
  a.self->send(a.link, answer);
  peer.set(zmq::sockopt::rcvtimeo, 20'000);
  zmq::message_t first;
  zmq::message_t second;
  BOOST_REQUIRE(peer.recv(first).has_value());
  BOOST_REQUIRE(peer.recv(second).has_value());
  BOOST_TEST(second.to_string() == "payload");
}

/// The host's default for other paths must not apply. Where that default is
/// this rule as well, the test shows nothing.
BOOST_AUTO_TEST_CASE(both_ends_send_unpaced_within_a_host) {
  link_socket a{zmq, server()};
  link_socket b{zmq, client(a.endpoint())};
  std::vector<std::string> rules;
  std::vector<std::string> unpaced{"reno", "reno"};
  auto until = std::chrono::steady_clock::now() + patience;
  while (rules != unpaced && std::chrono::steady_clock::now() < until) {
    (void)a.sleep(-1, false);
    (void)a.connection_changes();
    (void)b.connection_changes();
    rules = rules_of_connections();
  }
  BOOST_TEST(rules == unpaced, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_peer_that_does_not_read_fills_only_its_own_queue) {
  auto options = server();
  options.high_water = 4;
  side a{system, zmq, options};
  auto lazy = raw(a.endpoint);
  lazy.send(control::encode({"x", 1, control::done{}}), zmq::send_flags::none);
  auto peer = a.next<incoming_ptr>()->peer;
  control::status_text big{std::string(1 << 20, 'x')};
  for (auto i = 0; i < 1200; ++i) {
    a.say(peer, {"manager", 0, big});
    if (a.self->has_next_message())
      break;
  }
  auto told = a.next<link_event_ptr>();
  BOOST_TEST((told->what == link_event::kind::overrun));
  auto busy = raw(a.endpoint);
  busy.send(control::encode({"y", 1, control::done{}}), zmq::send_flags::none);
  BOOST_TEST(a.next<incoming_ptr>()->what.from == "y");
}

/// ZeroMQ reads no further while the queue is full, and learns then that the
/// peer is gone. Its heartbeats would end the process in that state.
BOOST_AUTO_TEST_CASE(a_socket_outlives_a_peer_that_leaves_its_queue_full) {
  constexpr auto longer_than_a_heartbeat = 1500ms;
  auto options = server();
  options.high_water = 4;
  link_socket a{zmq, options};
  auto next = [&] {
    auto until = std::chrono::steady_clock::now() + patience;
    parcel_ptr out;
    while (!(out = a.receive()) && std::chrono::steady_clock::now() < until)
      (void)a.sleep(-1, false);
    BOOST_REQUIRE(out);
    return out;
  };
  {
    zmq::context_t elsewhere;
    zmq::socket_t peer{elsewhere, zmq::socket_type::dealer};
    peer.set(zmq::sockopt::rcvhwm, 1);
    peer.connect(a.endpoint());
    peer.send(zmq::str_buffer("a question"), zmq::send_flags::none);
    // A peer that goes without having read resets its connection.
    auto first = next();
    for (auto i = 0; i < 4; ++i) {
      dispatch answer{first->peer(), zmq::message_t(1 << 20), {}};
      (void)a.send(answer);
    }
    for (auto i = 0; i < 500; ++i)
      peer.send(zmq::message_t(1024), zmq::send_flags::none);
  }
  std::this_thread::sleep_for(longer_than_a_heartbeat);
  auto other = raw(a.endpoint());
  other.send(zmq::str_buffer("a message"), zmq::send_flags::sndmore);
  other.send(zmq::str_buffer("with a payload"), zmq::send_flags::none);
  while (next()->bulk().empty())
    continue;
}

BOOST_AUTO_TEST_CASE(a_vanished_host_is_noticed_by_the_kernel) {
  link_socket a{zmq, server()};
  link_socket b{zmq, client(a.endpoint())};
  auto until = std::chrono::steady_clock::now() + patience;
  auto bounded = 0;
  while (bounded < 2 && std::chrono::steady_clock::now() < until) {
    (void)a.sleep(-1, false);
    (void)a.connection_changes();
    (void)b.connection_changes();
    bounded = bounded_connections();
  }
  BOOST_TEST(bounded == 2);
}

BOOST_AUTO_TEST_CASE(a_connection_without_a_word_ends) {
  side a{system, zmq, server()};
  unique_fd silent{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  where.sin_port = ::htons(static_cast<std::uint16_t>(
      std::stoul(a.endpoint.substr(a.endpoint.rfind(':') + 1))));
  BOOST_REQUIRE(::connect(silent.get(), reinterpret_cast<sockaddr*>(&where),
                          sizeof where) == 0);
  timeval longest{std::chrono::seconds{patience}.count(), 0};
  BOOST_REQUIRE(::setsockopt(silent.get(), SOL_SOCKET, SO_RCVTIMEO, &longest,
                             sizeof longest) == 0);
  std::array<char, 256> greeting{};
  ssize_t got = 1;
  while (got > 0)
    got = ::recv(silent.get(), greeting.data(), greeting.size(), 0);
  auto ended = got == 0 || errno == ECONNRESET;
  BOOST_TEST(ended);
}

BOOST_AUTO_TEST_CASE(a_link_waits_for_a_consumer_that_is_late) {
  side a{system, zmq, server()};
  auto eager = raw(a.endpoint);
  constexpr std::size_t more = 100;
  for (std::size_t i = 0; i < unhandled::most + more; ++i)
    eager.send(control::encode({"x", i, control::done{}}),
               zmq::send_flags::none);
  std::vector<incoming_ptr> held;
  while (held.size() < unhandled::most)
    held.push_back(a.next<incoming_ptr>());
  BOOST_TEST(!a.next_within<incoming_ptr>(300ms));
  held.clear();
  for (std::size_t i = 0; i < more; ++i)
    BOOST_TEST(a.next<incoming_ptr>()->what.request == unhandled::most + i);
}

BOOST_AUTO_TEST_CASE(a_bad_endpoint_is_named) {
  for (std::string endpoint : {"nonsense", "tcp://nowhere",
                               "tcp://203.0.113.7:*", "ipc:///no/dir/s"}) {
    auto got = spawn_link(system, zmq, server(endpoint));
    BOOST_REQUIRE(!got.ok());
    BOOST_TEST(got.why().what.find(endpoint) != std::string::npos);
  }
  auto got = spawn_link(system, zmq, server("ipc:///" + std::string(120, 'x')));
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what.find("107") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
