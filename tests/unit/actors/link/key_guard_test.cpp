#include "actors/link/curve_keys.hpp"
#include "actors/link/doorbell.hpp"
#include "actors/link/key_guard.hpp"
#include "actors/link/link.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/log.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Longer than any step takes, even on a busy machine.
constexpr auto until_given_up = 60s;

/// A socket of a link, and what it saw.
struct keyed_end {
  link_socket socket;
  std::vector<link_event> events;
  std::vector<parcel_ptr> received;

  keyed_end(zmq::context_t& zmq, const link_options& options)
      : socket(zmq, options) {}

  void look() {
    (void)socket.sleep(-1, false);
    for (auto& x : socket.connection_changes())
      events.push_back(std::move(x));
    while (auto in = socket.receive())
      received.push_back(std::move(in));
  }

  bool saw(link_event::kind what) const {
    return std::ranges::any_of(events,
                               [&](const auto& x) { return x.what == what; });
  }

  void say(const std::string& peer = {}) {
    auto what = control::encode({"x", 1, control::done{}});
    dispatch out{peer, std::move(what), {}};
    BOOST_REQUIRE(socket.send(out) == link_socket::sent::yes);
  }
};

key_pair new_pair() {
  auto out = make_key_pair();
  BOOST_REQUIRE(out.ok());
  return *out;
}

struct keyed_fixture {
  key_pair listener = new_pair();
  key_pair known = new_pair();
  std::shared_ptr<permitted_keys> permitted = std::make_shared<permitted_keys>(
      permitted_keys::table{{known.open, {principal::kind::node, "a", {}}}});
  zmq::context_t near;
  zmq::context_t far;
  key_guard guard{near, permitted};

  keyed_fixture() { spdlog::set_level(spdlog::level::off); }

  link_options server(bool keyed = true) const {
    link_options out;
    out.as = link_options::form::bind;
    out.endpoint = "tcp://127.0.0.1:*";
    out.name = "manager";
    if (keyed)
      out.keys =
          std::make_shared<const link_keys>(link_keys{listener, {}, permitted});
    return out;
  }

  /// Returns a client with this key that believes the listener has the other.
  static link_options client(const std::string& endpoint, const key_pair& own,
                             const std::string& listener_key) {
    link_options out;
    out.endpoint = endpoint;
    out.name = "node/a";
    out.keys = std::make_shared<const link_keys>(
        link_keys{own, {{endpoint, listener_key}}, nullptr});
    return out;
  }

  static link_options plain(const std::string& endpoint) {
    link_options out;
    out.endpoint = endpoint;
    out.name = "stranger";
    return out;
  }

  /// Looks at both until the condition holds. Returns whether it does.
  static bool comes(keyed_end& a, keyed_end& b,
                    const std::function<bool()>& holds) {
    auto until = std::chrono::steady_clock::now() + until_given_up;
    while (!holds() && std::chrono::steady_clock::now() < until) {
      a.look();
      b.look();
      std::this_thread::sleep_for(1ms);
    }
    return holds();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_links, keyed_fixture)

BOOST_AUTO_TEST_CASE(a_permitted_key_passes_and_names_the_sender) {
  keyed_end a{near, server()};
  keyed_end b{far, client(a.socket.endpoint(), known, listener.open)};
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
  b.say();
  BOOST_REQUIRE(comes(a, b, [&] { return !a.received.empty(); }));
  auto who = a.received.front()->who();
  BOOST_REQUIRE(who);
  BOOST_TEST((*who == principal{principal::kind::node, "a", {}, known.open}));
  a.say(a.received.front()->peer());
  BOOST_REQUIRE(comes(a, b, [&] { return !b.received.empty(); }));
  BOOST_TEST(!b.received.front()->who());
}

/// Each of these peers comes again and again. One with a key comes in between
/// and is heard, so the others were looked at and refused.
BOOST_AUTO_TEST_CASE(strangers_are_refused_before_a_frame_is_read) {
  keyed_end a{near, server()};
  auto where = a.socket.endpoint();
  const std::pair<const char*, link_options> strangers[] = {
      {"an unknown key", client(where, new_pair(), listener.open)},
      {"another listener's key", client(where, known, new_pair().open)},
      {"no key", plain(where)},
  };
  for (const auto& [which, how] : strangers) {
    BOOST_TEST_CONTEXT(which) {
      keyed_end b{far, how};
      auto retries = [&] {
        return std::ranges::count_if(b.events, [](const auto& x) {
                 return x.what == link_event::kind::unreachable;
               }) >= 3;
      };
      // A peer without a key learns nothing at all of the listener, whose
      // handshake it waits for.
      if (how.keys)
        BOOST_TEST(comes(a, b, retries));
      keyed_end good{far, client(where, known, listener.open)};
      BOOST_TEST(
          comes(a, good, [&] { return good.saw(link_event::kind::up); }));
      b.look();
      BOOST_TEST(!b.saw(link_event::kind::up));
    }
  }
  // A stranger that does not wait for its welcome.
  zmq::socket_t bad{far, zmq::socket_type::dealer};
  bad.set(zmq::sockopt::linger, 0);
  bad.connect(where);
  bad.send(control::encode({"x", 1, control::done{}}), zmq::send_flags::none);
  keyed_end good{far, client(where, known, listener.open)};
  BOOST_REQUIRE(comes(a, good, [&] { return good.saw(link_event::kind::up); }));
  good.say();
  BOOST_REQUIRE(comes(a, good, [&] { return !a.received.empty(); }));
  BOOST_TEST(a.received.size() == 1u);
  BOOST_TEST(a.received.front()->who()->name == "a");
}

BOOST_AUTO_TEST_CASE(a_revoked_key_ends_its_connection_and_no_other) {
  auto other = new_pair();
  permitted->replace({{known.open, {principal::kind::node, "a", {}}},
                      {other.open, {principal::kind::tenant, "b", "b"}}});
  keyed_end a{near, server()};
  auto where = a.socket.endpoint();
  keyed_end b{far, client(where, known, listener.open)};
  keyed_end c{far, client(where, other, listener.open)};
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
  BOOST_REQUIRE(comes(a, c, [&] { return c.saw(link_event::kind::up); }));
  b.say();
  c.say();
  BOOST_REQUIRE(comes(a, b, [&] { return a.received.size() == 2; }));
  permitted->replace({{other.open, {principal::kind::tenant, "b", "b"}}});
  BOOST_REQUIRE(comes(a, b, [&] {
    return a.saw(link_event::kind::down) && b.saw(link_event::kind::down);
  }));
  BOOST_TEST(a.saw(link_event::kind::revoked));
  BOOST_TEST(!b.saw(link_event::kind::revoked));
  c.say();
  BOOST_REQUIRE(comes(a, c, [&] { return a.received.size() == 3; }));
  BOOST_TEST(!c.saw(link_event::kind::down));
  BOOST_TEST(a.received.back()->who()->name == "b");
}

/// It is not known yet whose connection it is.
BOOST_AUTO_TEST_CASE(a_revoked_key_that_said_nothing_is_out_as_well) {
  keyed_end a{near, server()};
  keyed_end b{far, client(a.socket.endpoint(), known, listener.open)};
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
  permitted->replace({});
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::down); }));
}

BOOST_AUTO_TEST_CASE(what_a_revoked_key_sent_before_is_dropped) {
  keyed_end a{near, server()};
  keyed_end b{far, client(a.socket.endpoint(), known, listener.open)};
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
  b.say();
  while (!a.socket.has_messages())
    std::this_thread::sleep_for(1ms);
  permitted->replace({});
  BOOST_TEST(!a.socket.receive());
}

BOOST_AUTO_TEST_CASE(the_link_sleeps_until_a_key_is_revoked) {
  keyed_end a{near, server()};
  keyed_end b{far, client(a.socket.endpoint(), known, listener.open)};
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
  doorbell stop;
  std::jthread sleeper{[&] {
    while (!a.socket.sleep(stop.fd(), true))
      (void)a.socket.connection_changes();
  }};
  permitted->replace({});
  auto until = std::chrono::steady_clock::now() + until_given_up;
  while (!b.saw(link_event::kind::down) &&
         std::chrono::steady_clock::now() < until) {
    b.look();
    std::this_thread::sleep_for(1ms);
  }
  BOOST_TEST(b.saw(link_event::kind::down));
  stop.ring();
}

BOOST_AUTO_TEST_CASE(a_key_that_is_permitted_later_gets_in) {
  auto late = new_pair();
  keyed_end a{near, server()};
  keyed_end b{far, client(a.socket.endpoint(), late, listener.open)};
  BOOST_REQUIRE(
      comes(a, b, [&] { return b.saw(link_event::kind::unreachable); }));
  BOOST_TEST(!b.saw(link_event::kind::up));
  permitted->replace({{late.open, {principal::kind::tenant, "b", "b"}}});
  BOOST_TEST(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
}

/// Without keys nothing changes, for peers that have some as well.
BOOST_AUTO_TEST_CASE(a_link_without_keys_admits_everybody) {
  keyed_end a{near, server(false)};
  auto options = plain(a.socket.endpoint());
  options.keys = std::make_shared<const link_keys>(
      link_keys{known, {{"tcp://127.0.0.1:1", listener.open}}, nullptr});
  keyed_end b{far, options};
  BOOST_REQUIRE(comes(a, b, [&] { return b.saw(link_event::kind::up); }));
  b.say();
  BOOST_REQUIRE(comes(a, b, [&] { return !a.received.empty(); }));
  BOOST_TEST(!a.received.front()->who());
}

/// Whoever forgot the guard has not opened the door.
BOOST_AUTO_TEST_CASE(without_a_guard_nobody_is_admitted) {
  zmq::context_t bare;
  keyed_end a{bare, server()};
  keyed_end b{far, client(a.socket.endpoint(), known, listener.open)};
  BOOST_TEST(comes(a, b, [&] { return b.saw(link_event::kind::unreachable); }));
  BOOST_TEST(!b.saw(link_event::kind::up));
}

BOOST_AUTO_TEST_CASE(a_key_is_40_characters_of_z85) {
  auto pair = new_pair();
  BOOST_TEST(is_key(pair.open));
  BOOST_TEST(is_key(pair.secret));
  BOOST_TEST(pair_of(pair.secret)->open == pair.open);
  for (const std::string& bad :
       {std::string{}, pair.open.substr(1), pair.open + "0",
        std::string(40, '#'), std::string(40, ' '), std::string(40, '\0'),
        std::string(40, '\xff')}) {
    BOOST_TEST(!is_key(bad));
    BOOST_TEST(!pair_of(bad).ok());
  }
}

BOOST_AUTO_TEST_SUITE_END()
