// A worker whose TCP port has a key, and its client.
#include "actors/link/log.hpp"

#include "tests/unit/actors/data_plane_fixture.hpp"
#include "tests/unit/actors/talker.hpp"
#include "tests/unit/actors/tapped_wire.hpp"

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

key_pair new_key() {
  auto out = make_key_pair();
  BOOST_REQUIRE(out.ok());
  return *out;
}

/// Everybody has a key.
struct keyed_world : world {
  keyed_world() {
    spdlog::set_level(spdlog::level::off); // strangers knock often
    client_key = new_key();
    lease_term = 10s; // a busy machine may stop everybody for a while
  }

  bool suspects(const std::string& why) {
    return in.wait([&] {
      return in.has<control::suspect>(
          [&](auto& x) { return x.reason.find(why) != std::string::npos; });
    });
  }
  void write_mib(int times) {
    constexpr std::uint32_t mib = 1 << 20;
    for (int i = 0; i < times; ++i)
      call::append(log,
                   call::write{.stream = {legacy_stream},
                               .to = {counter + 4096, 0, 0},
                               .size = {64, 1, 1}},
                   0, 0, mib,
                   [](auto to) { std::ranges::fill(to, std::byte{7}); }, {});
  }
};

/// Tries to connect, again and again.
struct knocker {
  link_socket socket;
  int refused = 0; // attempts
  bool heard = false;

  knocker(zmq::context_t& zmq, const std::string& endpoint,
          std::shared_ptr<const link_keys> keys)
      : socket(zmq, options(endpoint, std::move(keys))) {}
  knocker(zmq::context_t& zmq, const std::string& endpoint,
          const sealed_way& way)
      : socket(zmq, options(endpoint, nullptr, way)) {}

  void look() {
    for (auto& x : socket.connection_changes()) {
      heard = heard || x.what == link_event::kind::up;
      refused += x.what == link_event::kind::unreachable ? 1 : 0;
    }
    while (auto got = socket.receive())
      heard = true;
    // A stranger that does not wait for its welcome.
    dispatch out;
    data::attach shown;
    shown.token = world::token;
    put_frames(out, data::encode({{1}, {1}, std::move(shown)}));
    (void)socket.send(out);
  }

private:
  static link_options options(const std::string& endpoint,
                              std::shared_ptr<const link_keys> keys,
                              const std::optional<sealed_way>& way = {}) {
    link_options out;
    out.sealed = way;
    out.endpoint = endpoint;
    out.name = "knocker";
    out.keys = std::move(keys);
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(keyed_worker, keyed_world)

BOOST_AUTO_TEST_CASE(a_forwarded_log_is_served_by_keys) {
  begin(transport::forwarded, true);
  for (int i = 0; i < 1000; ++i)
    add(3);
  BOOST_TEST(read_counter() == 3000u);
}

BOOST_AUTO_TEST_CASE(a_mapped_log_needs_no_key) {
  connect(transport::automatic);
  auto worker = start_worker(1, true);
  worker.keys->admit({});
  lease(1, worker);
  prepare();
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

/// The lease of each epoch has the key of its own worker.
BOOST_AUTO_TEST_CASE(each_epoch_has_a_key_of_its_own) {
  lease_term = 1s; // the fence waits as long
  auto first = begin(transport::forwarded, false);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  kill(first);
  auto second = start_worker(2, false);
  BOOST_TEST(second.endpoints.key != first.endpoints.key);
  lease(2, second);
  add(4);
  BOOST_TEST(read_counter() == 7u);
  // A migration, too.
  BOOST_TEST(pause(2) == "");
  lease(3, start_worker(3, false));
  add(5);
  BOOST_TEST(read_counter() == 12u);
}

/// The first connection has CURVE, and brings what opens the second.
BOOST_AUTO_TEST_CASE(the_second_connection_is_sealed) {
  auto worker = start_worker(1, false);
  const auto& at = worker.endpoints.endpoint;
  talker first{zmq, link_options::form::connect, at,
               keys_to_port(*client_key, at, worker.endpoints.key)};
  data::attach shown;
  shown.token = token;
  first.say(shown);
  auto answer = first.next<data::attached>();
  BOOST_TEST(answer.second_port == 0u);
  BOOST_REQUIRE(answer.seal.port != 0);
  auto other =
      at.substr(0, at.rfind(':') + 1) + std::to_string(answer.seal.port);
  talker second{zmq, other, sealed_way{answer.seal, {{1}, {1}}}};
  second.say(data::join{token});
  BOOST_TEST(second.next<data::join>().token == 0u);
  // Without a ticket, or with one that was used, nobody gets so far, also not
  // with the client's key.
  knocker stranger{zmq, other, nullptr};
  knocker keyed{zmq, other,
                keys_to_port(*client_key, other, worker.endpoints.key)};
  knocker late{zmq, other, sealed_way{answer.seal, {{1}, {1}}}};
  while (late.refused == 0) {
    for (auto* x : {&stranger, &keyed, &late})
      x->look();
    first.say(data::keepalive{});
    (void)first.hear(10ms);
  }
  BOOST_TEST(!keyed.heard);
  BOOST_TEST(!stranger.heard);
  BOOST_TEST(!late.heard);
}

/// The real client sends so much that it opens the sealed connection, after
/// which CURVE encrypts only what is short.
BOOST_AUTO_TEST_CASE(long_payloads_travel_sealed) {
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  tapped_wire first{worker.endpoints.endpoint};
  worker.endpoints.endpoint = first.endpoint();
  lease(1, worker);
  prepare();
  auto count = 0u;
  auto send_all = [&] {
    for (int i = 0; i < 8; ++i) {
      write_mib(8);
      add(1);
      BOOST_TEST(read_counter() == ++count);
    }
  };
  send_all();
  auto before = first.passed();
  send_all();
  BOOST_TEST(first.passed() - before < std::size_t{4} << 20);
  BOOST_TEST(!in.has<control::suspect>([](auto&) { return true; }));
}

/// They all know the port and the lease's token.
BOOST_AUTO_TEST_CASE(strangers_with_the_token_get_no_welcome) {
  auto worker = begin(transport::forwarded, false);
  auto former = ports.emplace_back().keys->open();
  const auto& at = worker.endpoints.endpoint;
  knocker none{zmq, at, nullptr};
  knocker other{zmq, at, keys_to_port(new_key(), at, worker.endpoints.key)};
  knocker early{zmq, at, keys_to_port(*client_key, at, former)};
  auto count = 0u;
  while (other.refused == 0 || early.refused == 0) {
    for (auto* x : {&none, &other, &early})
      x->look();
    add(1);
    BOOST_TEST_REQUIRE(read_counter() == ++count);
  }
  BOOST_TEST(!none.heard);
  BOOST_TEST(!other.heard);
  BOOST_TEST(!early.heard);
  BOOST_TEST(!in.has<control::suspect>([](auto&) { return true; }));
}

BOOST_AUTO_TEST_CASE(a_worker_with_another_key_than_its_lease_is_suspected) {
  lease_term = 1s; // the fence waits as long
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  auto true_key =
      std::exchange(worker.endpoints.key, ports.emplace_back().keys->open());
  lease(1, worker);
  BOOST_TEST(suspects("nobody listens"));
  worker.endpoints.key = true_key;
  lease(2, start_worker(2, false));
  prepare();
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(a_worker_without_a_key_gets_no_calls) {
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  worker.endpoints.key.clear();
  lease(1, worker);
  BOOST_TEST(suspects("has no key"));
  worker.endpoints.key = "no key at all";
  lease(2, worker);
  BOOST_TEST(suspects("cannot connect"));
}

BOOST_AUTO_TEST_CASE(a_worker_with_a_key_gets_none_from_a_client_without) {
  auto worker = start_worker(1, false);
  client_key.reset();
  connect(transport::forwarded);
  lease(1, worker);
  BOOST_TEST(suspects("asks for a key"));
}

/// Who is in between sees that something passes, and not what. Without keys it
/// sees everything.
BOOST_AUTO_TEST_CASE(nothing_passes_in_the_clear) {
  auto listens = [&](bool keyed) {
    world x{};
    if (keyed)
      x.client_key = client_key;
    x.lease_term = lease_term;
    x.connect(transport::forwarded);
    auto worker = x.start_worker(1, false);
    tapped_wire wire{worker.endpoints.endpoint};
    worker.endpoints.endpoint = wire.endpoint();
    x.lease(1, worker);
    x.prepare();
    constexpr std::string_view ptx = ".visible .entry secret_kernel(";
    call::append(
        x.log,
        call::image_part{.image = {1, 2}, .offset = 0, .total = ptx.size()}, 0,
        0, ptx.size(),
        [&](auto to) { std::memcpy(to.data(), ptx.data(), ptx.size()); }, {});
    x.add(3);
    BOOST_TEST(x.read_counter() == 3u);
    auto shown = std::bit_cast<std::array<char, sizeof(token)>>(token);
    BOOST_TEST(wire.passed() > 500u);
    BOOST_TEST(wire.saw({shown.data(), shown.size()}) == !keyed);
    BOOST_TEST(wire.saw(ptx) == !keyed);
  };
  listens(true);
  listens(false);
}

/// Its client has another key, which replaces the former one at once.
BOOST_AUTO_TEST_CASE(a_new_client_replaces_the_former) {
  auto worker = begin(transport::forwarded, false);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  auto former = std::exchange(client_key, new_key());
  worker.keys->admit(client_key->open);
  kill_client();
  connect(transport::forwarded, true);
  lease(1, worker);
  add(4);
  BOOST_TEST(read_counter() == 7u);
  const auto& at = worker.endpoints.endpoint;
  knocker late{zmq, at, keys_to_port(*former, at, worker.endpoints.key)};
  for (auto count = 7u; late.refused == 0;) {
    late.look();
    add(1);
    BOOST_TEST_REQUIRE(read_counter() == ++count);
  }
  BOOST_TEST(!late.heard);
}

BOOST_AUTO_TEST_SUITE_END()
