// A port whose connections are opened by tickets, and whose messages are
// sealed.
#include "actors/link/key_guard.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/log.hpp"
#include "tests/unit/actors/tapped_wire.hpp"

#include <boost/test/unit_test.hpp>

#include <poll.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace vgpu;
using vgpu::test::tapped_wire;
using namespace std::chrono_literals;

namespace {

constexpr seal_subject subject{{7}, {3}};

/// A peer of the port, and what it saw.
struct sealed_peer {
  link_socket socket;
  int up = 0;
  int ended = 0;
  std::vector<std::string> received;

  sealed_peer(zmq::context_t& zmq, const link_options& options)
      : socket(zmq, options) {}

  void look() {
    for (auto& x : socket.connection_changes())
      ++(x.what == link_event::kind::up ? up : ended);
    while (auto in = socket.receive())
      received.push_back(test_text(*in));
  }
  static std::string test_text(const parcel& in) {
    return {reinterpret_cast<const char*>(in.bulk().data()), in.bulk().size()};
  }
};

struct sealed_port_fixture {
  zmq::context_t near{2}; // The second port has an I/O thread of its own.
  zmq::context_t far;
  std::unique_ptr<port_keys> keys;
  std::unique_ptr<link_socket> port;
  std::vector<parcel_ptr> received;

  sealed_port_fixture() {
    spdlog::set_level(spdlog::level::off);
    auto made = port_keys::make(near);
    BOOST_REQUIRE(made.ok());
    keys = std::move(*made);
    link_options bound;
    bound.as = link_options::form::bind;
    bound.endpoint = "tcp://127.0.0.1:*";
    bound.name = "worker";
    bound.io_thread = 0;
    bound.second_port = true;
    bound.keys = keys->link();
    port = std::make_unique<link_socket>(near, bound);
    BOOST_REQUIRE(port->has_sealed_port());
    BOOST_TEST(port->second_port() == 0);
  }
  ~sealed_port_fixture() { port.reset(); }

  static std::string at(std::uint16_t number) {
    return "tcp://127.0.0.1:" + std::to_string(number);
  }
  static link_options holder(const seal_offer& offer,
                             const std::string& endpoint) {
    link_options out;
    out.endpoint = endpoint;
    out.name = "session/7";
    out.sealed = sealed_way{offer, subject};
    return out;
  }
  static link_options holder(const seal_offer& offer) {
    return holder(offer, at(offer.port));
  }

  /// Sends a long text, which has a frame of its own.
  template <class Socket>
  static link_socket::sent say(Socket& by, const std::string& text,
                               const std::string& peer = {}) {
    auto kept = std::make_shared<std::string>(text);
    const std::uint64_t head[] = {0, 0};
    dispatch out;
    out.peer = peer;
    put_frames(out, head, std::as_bytes(std::span{*kept}), kept);
    return by.send(out);
  }

  void look() {
    (void)port->connection_changes();
    while (auto in = port->receive())
      received.push_back(in);
  }
  /// Adds what a socket waits for. Returns whether it has something already.
  static bool listen(link_socket& to, std::vector<pollfd>& items) {
    if (to.overlooked())
      return true;
    to.add_to(items);
    return false;
  }
  template <class Holds, class... Peers>
  bool comes(const Holds& holds, Peers&... peers) {
    constexpr auto until_given_up = 60s;
    auto until = std::chrono::steady_clock::now() + until_given_up;
    while (!holds() && std::chrono::steady_clock::now() < until) {
      look();
      (peers.look(), ...);
      std::vector<pollfd> items;
      auto left = listen(*port, items);
      ((left = listen(peers.socket, items) || left), ...);
      ::poll(items.data(), items.size(), left ? 0 : 10);
    }
    return holds();
  }
};

std::string long_text(char of) {
  return std::string(200'000, of) + " the payload's text";
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(sealed_ports, sealed_port_fixture)

BOOST_AUTO_TEST_CASE(a_holder_of_the_ticket_speaks_and_hears) {
  auto offer = port->offer_sealed(subject);
  tapped_wire wire{at(offer.port)};
  sealed_peer b{far, holder(offer, wire.endpoint())};
  BOOST_REQUIRE(comes([&] { return b.up == 1; }, b));
  for (char x = 'a'; x < 'k'; ++x)
    BOOST_TEST((say(b.socket, long_text(x)) == link_socket::sent::yes));
  BOOST_REQUIRE(comes([&] { return received.size() == 10; }, b));
  for (std::size_t i = 0; i < received.size(); ++i)
    BOOST_TEST((sealed_peer::test_text(*received[i]) ==
                long_text(static_cast<char>('a' + i))));
  BOOST_TEST((say(*port, long_text('z'), received[0]->peer()) ==
              link_socket::sent::yes));
  BOOST_REQUIRE(comes([&] { return b.received.size() == 1; }, b));
  BOOST_TEST((b.received[0] == long_text('z')));
  // Who is in between saw all of it pass, and nothing of what it says.
  BOOST_TEST(wire.passed() > 2'000'000u);
  BOOST_TEST(!wire.saw("payload"));
  BOOST_TEST(!wire.saw("aaaaaaaa"));
  BOOST_TEST(!wire.saw(
      {reinterpret_cast<const char*>(offer.key.data()), offer.key.size()}));
}

/// Who saw the ticket pass, or guesses, or has no ticket, gets no welcome.
BOOST_AUTO_TEST_CASE(a_ticket_opens_one_connection) {
  auto offer = port->offer_sealed(subject);
  sealed_peer first{far, holder(offer)};
  BOOST_REQUIRE(comes([&] { return first.up == 1; }, first));
  auto guessed = offer;
  guessed.ticket[0] ^= std::byte{1};
  link_options plain;
  plain.endpoint = at(offer.port);
  plain.name = "stranger";
  auto keyed = plain;
  auto pair = make_key_pair();
  BOOST_REQUIRE(pair.ok());
  keys->admit(pair->open);
  keyed.keys = keys_to_port(*pair, plain.endpoint, keys->open());
  sealed_peer late{far, holder(offer)};
  sealed_peer wrong{far, holder(guessed)};
  sealed_peer without{far, plain};
  sealed_peer curve{far, keyed};
  // Handshakes that get no answer end after 5 s.
  BOOST_REQUIRE(comes([&] { return late.ended > 0 && wrong.ended > 0; }, first,
                      late, wrong, without, curve));
  BOOST_TEST(late.up + wrong.up + without.up + curve.up == 0);
  for (auto* x : {&late, &wrong, &without, &curve})
    (void)say(x->socket, long_text('x'));
  BOOST_TEST((say(first.socket, long_text('a')) == link_socket::sent::yes));
  BOOST_REQUIRE(comes([&] { return !received.empty(); }, first, late, wrong,
                      without, curve));
  BOOST_TEST((sealed_peer::test_text(*received[0]) == long_text('a')));
  BOOST_TEST(received.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_new_offer_ends_the_former_connection) {
  auto former = port->offer_sealed(subject);
  sealed_peer first{far, holder(former)};
  BOOST_REQUIRE(comes([&] { return first.up == 1; }, first));
  BOOST_TEST((say(first.socket, long_text('a')) == link_socket::sent::yes));
  BOOST_REQUIRE(comes([&] { return received.size() == 1; }, first));
  auto peer = received[0]->peer();
  auto offer = port->offer_sealed(subject);
  BOOST_TEST((offer.key != former.key));
  // Nothing goes to the former connection, least of all in the clear.
  BOOST_TEST((say(*port, long_text('b'), peer) == link_socket::sent::gone));
  (void)say(first.socket, long_text('c'));
  BOOST_REQUIRE(comes([&] { return first.ended > 0; }, first));
  sealed_peer second{far, holder(offer)};
  BOOST_REQUIRE(comes([&] { return second.up == 1; }, first, second));
  BOOST_TEST((say(second.socket, long_text('d')) == link_socket::sent::yes));
  BOOST_REQUIRE(comes([&] { return received.size() == 2; }, first, second));
  BOOST_TEST((sealed_peer::test_text(*received[1]) == long_text('d')));
  BOOST_TEST(first.received.empty());
}

/// The connection ends, and nothing that was changed, or that follows it, is
/// received.
BOOST_AUTO_TEST_CASE(who_changes_a_byte_breaks_the_connection) {
  auto offer = port->offer_sealed(subject);
  tapped_wire wire{at(offer.port)};
  sealed_peer b{far, holder(offer, wire.endpoint())};
  BOOST_REQUIRE(comes([&] { return b.up == 1; }, b));
  BOOST_TEST((say(b.socket, long_text('a')) == link_socket::sent::yes));
  BOOST_REQUIRE(comes([&] { return received.size() == 1; }, b));
  wire.change_next();
  // The changed byte may be in the frame's size, so that more is awaited.
  BOOST_TEST((say(b.socket, long_text('b')) == link_socket::sent::yes));
  (void)say(b.socket, long_text('c'));
  BOOST_REQUIRE(comes([&] { return b.ended > 0; }, b));
  BOOST_TEST(port->seal_broke());
  BOOST_TEST(received.size() == 1u);
  BOOST_TEST((say(*port, long_text('d'), received[0]->peer()) ==
              link_socket::sent::gone));
}

BOOST_AUTO_TEST_SUITE_END()
