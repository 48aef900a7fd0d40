// A client that sends much data to a worker on another host has two
// connections.
#include "actors/link/reorder_buffer.hpp"
#include "actors/worker/session/worker_bounds.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"
#include "tests/unit/actors/talker.hpp"

#include <algorithm>
#include <numeric>
#include <stop_token>
#include <thread>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// A real client, whose worker is the test. It has two sockets, so that one
/// connection can break.
struct acted_worker_world : world {
  std::optional<talker> first{std::in_place, zmq, link_options::form::bind,
                              "tcp://127.0.0.1:*"};
  std::optional<talker> second{std::in_place, zmq, link_options::form::bind,
                               "tcp://127.0.0.1:*"};
  std::uint64_t received = 0;
  std::map<std::uint64_t, std::uint64_t> early;
  std::size_t by_second = 0; // ranges received by the second

  void begin_acted() {
    connect(transport::forwarded);
    lease(1, {{first->endpoint(), "", "elsewhere"}, {}, {}});
    (void)first->next<data::attach>();
    first->say(data::attached{{}, second->port()});
  }
  void write_mib(int times) {
    for (int i = 0; i < times; ++i)
      call::append(log,
                   call::write{.stream = {legacy_stream},
                               .to = {first_window, 0, 0},
                               .size = {mib, 1, 1}},
                   0, 0, static_cast<std::uint32_t>(mib),
                   [](auto to) { std::ranges::fill(to, std::byte{7}); }, {});
  }
  void take(const data::calls& x) {
    early[x.from] = x.to;
    for (auto i = early.find(received); i != early.end();
         i = early.find(received)) {
      received = i->second;
      early.erase(i);
    }
  }
  /// Takes calls until all that were appended have arrived.
  void take_calls(bool both = true) {
    for (auto until = std::chrono::steady_clock::now() + 120s;
         received < area.header().tail.load();) {
      BOOST_REQUIRE(std::chrono::steady_clock::now() < until);
      if (auto x = first->hear(1ms))
        if (auto* calls = std::get_if<data::calls>(&x->head.body))
          take(*calls);
      if (!both)
        continue;
      if (auto x = second->hear(1ms))
        if (auto* calls = std::get_if<data::calls>(&x->head.body)) {
          take(*calls);
          ++by_second;
        }
    }
    first->say(data::progress{.received = received, .executed = received});
  }
  /// Sends so much that the client opens a second connection.
  void earn_second() {
    write_mib(17);
    take_calls(false);
    BOOST_TEST(second->next<data::join>().token == token);
    second->say(data::join{});
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(second_connection)

BOOST_AUTO_TEST_CASE(early_ranges_are_kept_in_order_and_bounded) {
  reorder_buffer<int> kept;
  BOOST_TEST(!kept.take(0));
  BOOST_TEST(kept.keep(30, 10, 3));
  BOOST_TEST(kept.keep(20, 10, 2));
  BOOST_TEST(kept.keep(20, 10, 9)); // again: the first counts
  BOOST_TEST(!kept.take(19));
  BOOST_TEST(kept.take(20).value() == 2);
  BOOST_TEST(kept.take(30).value() == 3);
  BOOST_TEST(!kept.take(1000));
  constexpr auto most = reorder_buffer<int>::most_bytes;
  BOOST_TEST(kept.keep(1, most, 1));
  BOOST_TEST(!kept.keep(2, 1, 2));
  BOOST_TEST(!kept.take(1000)); // all is sent again
  for (std::uint64_t i = 0; i < reorder_buffer<int>::most; ++i)
    BOOST_REQUIRE(kept.keep(i, 0, 1));
  BOOST_TEST(!kept.keep(reorder_buffer<int>::most, 0, 1));
}

BOOST_FIXTURE_TEST_CASE(long_calls_use_both_connections, acted_worker_world) {
  begin_acted();
  earn_second();
  for (int i = 0; by_second == 0 && i < 50; ++i) {
    write_mib(1);
    take_calls();
  }
  BOOST_TEST(by_second > 0u);
  write_mib(8);
  by_second = 0;
  take_calls();
  BOOST_TEST(by_second == 4u);
}

BOOST_FIXTURE_TEST_CASE(answers_count_in_their_order, acted_worker_world) {
  begin_acted();
  earn_second();
  std::vector<std::byte> half(200'000, std::byte{1});
  auto call = append(call::read{.stream = {legacy_stream},
                                .from = {first_window, 0, 0},
                                .size = {400'000, 1, 1},
                                .to = {0, 400'000}},
                     1);
  take_calls();
  data::answer last{.number = 2,
                    .call = call,
                    .slot = 1,
                    .where = data::answer::place::arena,
                    .at = half.size()};
  data::answer part{
      .number = 1, .call = call, .where = data::answer::place::arena, .at = 0};
  second->say(last, half);
  // Within two keepalives the client would have taken it.
  for (int i = 0; i < 2; ++i)
    BOOST_TEST(first->next<data::keepalive>().answers_seen == 0u);
  auto answered = static_cast<std::uint32_t>(slot_state::answered);
  BOOST_TEST(area.at(1).state.load() != answered);
  first->say(part, half);
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  auto arena = area.arena().first(2 * half.size());
  BOOST_TEST(std::ranges::count(arena, std::byte{1}) ==
             static_cast<long>(arena.size()));
}

BOOST_FIXTURE_TEST_CASE(ranges_lost_with_the_second_come_by_the_first,
                        acted_worker_world) {
  begin_acted();
  earn_second();
  write_mib(8);
  // The worker takes nothing from the second connection.
  while (early.empty())
    if (auto x = first->hear(120s))
      if (auto* calls = std::get_if<data::calls>(&x->head.body))
        take(*calls);
  second.reset();
  (void)first->next<data::attach>();
  early.clear();
  first->say(data::attached{{.received = received, .executed = received}});
  take_calls(false);
  BOOST_TEST(received == area.header().tail.load());
}

// -- a worker -----------------------------------------------------------------

namespace {

struct world_with_term : world {
  explicit world_with_term(std::chrono::milliseconds x) { lease_term = x; }
};

/// A real worker, whose client is the test.
struct acted_client_world : world_with_term {
  explicit acted_client_world(std::chrono::milliseconds term = 10s)
      : world_with_term{term} {}

  running_worker worker = start_worker(1, false);
  talker first{zmq, link_options::form::connect, worker.endpoints.endpoint};
  std::optional<talker> second;
  log_reader reader{area, doorbell.get(), 0};
  static constexpr std::uint64_t bytes = 2 * mib;

  static data::attach lease_shown() {
    data::attach out;
    out.token = token;
    return out;
  }
  std::string second_endpoint(std::uint16_t port) const {
    const auto& at = worker.endpoints.endpoint;
    return at.substr(0, at.rfind(':') + 1) + std::to_string(port);
  }
  void attach_both() {
    first.say(lease_shown());
    auto port = first.next<data::attached>().second_port;
    BOOST_REQUIRE(port != 0);
    second.emplace(zmq, link_options::form::connect, second_endpoint(port));
    second->say(data::join{token});
    BOOST_TEST(second->next<data::join>().token == 0u);
  }
  /// Returns the calls appended since, as the client would send them.
  std::pair<data::calls, std::span<const std::byte>> range() {
    auto from = reader.position();
    auto got = reader.next_range(mib);
    BOOST_REQUIRE((got.ok() && !got->empty()));
    return {{from, from + got->size()}, *got};
  }
  void say(talker& by, std::pair<data::calls, std::span<const std::byte>> x) {
    by.say(x.first, x.second);
  }
  /// Waits for a progress message of the first connection. Speaks meanwhile,
  /// since a worker tells a silent client nothing.
  void await_progress() {
    for (auto until = std::chrono::steady_clock::now() + 120s;;) {
      BOOST_REQUIRE(std::chrono::steady_clock::now() < until);
      first.say(data::keepalive{});
      if (auto x = first.hear(100ms);
          x && std::holds_alternative<data::progress>(x->head.body))
        return;
    }
  }
  auto allocation() {
    append(call::mem_alloc{.address = first_window, .bytes = granule_bytes});
    return range();
  }
  auto reading() {
    append(call::read{.stream = {legacy_stream},
                      .from = {first_window, 0, 0},
                      .size = {bytes, 1, 1},
                      .to = {0, bytes}},
           1);
    return range();
  }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(calls_are_executed_in_their_order, acted_client_world) {
  attach_both();
  auto before = allocation();
  auto after = reading();
  say(*second, after);
  // The range may arrive before an earlier one, and must not be lost.
  first.say(data::keepalive{.sent = after.first.to});
  BOOST_TEST(first.next<data::progress>().executed == 0u);
  say(first, before);
  std::vector<std::uint64_t> numbers;
  auto by_second = 0u;
  auto collect = [&](talker& from) {
    auto x = from.hear(1ms);
    auto* answer = x ? std::get_if<data::answer>(&x->head.body) : nullptr;
    if (answer == nullptr)
      return;
    numbers.push_back(answer->number);
    BOOST_TEST((answer->result == CUDA_SUCCESS));
    by_second += &from == &*second ? 1 : 0;
  };
  constexpr auto parts = 8u;
  for (auto until = std::chrono::steady_clock::now() + 120s;
       numbers.size() < parts && std::chrono::steady_clock::now() < until;) {
    collect(first);
    collect(*second);
  }
  std::ranges::sort(numbers);
  std::vector<std::uint64_t> all(parts);
  std::iota(all.begin(), all.end(), std::uint64_t{1});
  BOOST_TEST(numbers == all, boost::test_tools::per_element());
  BOOST_TEST(by_second == parts / 2);
}

/// While a call takes long the worker keeps a bounded number of the ranges that
/// arrive, and drops the others.
BOOST_FIXTURE_TEST_CASE(a_worker_asks_for_dropped_ranges_again,
                        acted_client_world) {
  attach_both();
  loading->close();
  load();
  say(first, range());
  (void)first.next<data::progress>(); // a keepalive: the call still runs
  add(1);
  auto kept = range();
  for (auto i = 0; i < 1 << 16; ++i)
    say(first, kept);
  add(2);
  auto dropped = range();
  say(first, dropped);
  // Each progress message comes after the worker has taken everything that
  // arrived.
  while (first.hear(1ms))
    continue;
  for (int i = 0; i < 3; ++i)
    await_progress();
  loading->open();
  std::uint64_t received = 0;
  for (auto until = std::chrono::steady_clock::now() + 120s;
       received != dropped.first.to &&
       std::chrono::steady_clock::now() < until;) {
    first.say(data::keepalive{.sent = dropped.first.to});
    auto x = first.hear(100ms);
    if (!x)
      continue;
    if (auto* now = std::get_if<data::progress>(&x->head.body))
      received = now->received;
    else if (auto* missing = std::get_if<data::attached>(&x->head.body))
      // The worker may not have read the kept ranges yet.
      for (auto& again : {kept, dropped})
        if (again.first.from >= missing->at.received)
          say(first, again);
  }
  BOOST_TEST(received == dropped.first.to);
}

namespace {

struct forgetful_client_world : acted_client_world {
  forgetful_client_world() : acted_client_world{200ms} {}

  /// Says nothing until the worker refuses to hear more without the lease.
  void let_the_lease_lapse() {
    for (auto until = std::chrono::steady_clock::now() + 120s;;) {
      BOOST_REQUIRE(std::chrono::steady_clock::now() < until);
      while (first.hear(2 * lease_term))
        continue;
      first.say(data::keepalive{});
      if (auto x = first.hear(lease_term);
          x && std::holds_alternative<data::refused>(x->head.body))
        return;
    }
  }
};

} // namespace

/// A call may wait for the client: its stream needs what the client sends. So a
/// lease that lapsed is good again before the call ends.
BOOST_FIXTURE_TEST_CASE(a_lapsed_lease_is_shown_again_during_a_call,
                        forgetful_client_world) {
  attach_both();
  loading->close();
  load();
  auto loads = range();
  say(first, loads);
  (void)first.next<data::progress>(); // the call runs
  add(1);
  auto lost = range();
  say(first, lost);
  let_the_lease_lapse();
  first.say(lease_shown());
  BOOST_TEST(first.next<data::attached>().at.received == loads.first.to);
  await_progress();
  say(first, lost);
  append(call::device_sync{}, 2);
  say(first, range());
  loading->open();
  BOOST_TEST((first.next<data::answer>().result == CUDA_SUCCESS));
  BOOST_TEST((first.next<data::answer>().result == CUDA_SUCCESS));
}

/// A client that does not wait for its credit gets no more memory than one that
/// does.
BOOST_FIXTURE_TEST_CASE(calls_beyond_the_credit_are_dropped,
                        acted_client_world) {
  constexpr auto most = worker_bounds::backlog;
  first.say(lease_shown());
  (void)first.next<data::attached>();
  say(first, allocation());
  // The worker executes nothing while the client leaves so many answers.
  for (auto i = 0; i < 6; ++i)
    say(first, reading());
  const std::vector<std::byte> calls_of_a_mib(mib);
  auto at = reader.position();
  while (at < most + 8 * mib) {
    first.say(data::calls{at, at + mib}, calls_of_a_mib);
    at += mib;
  }
  first.say(data::keepalive{});
  for (auto received = at; received > most;) {
    auto x = first.hear();
    BOOST_REQUIRE(x);
    if (auto* missing = std::get_if<data::attached>(&x->head.body))
      received = missing->at.received;
    else if (auto* now = std::get_if<data::progress>(&x->head.body))
      BOOST_REQUIRE(now->received <= most);
  }
}

/// A stranger who never stops sending keeps nobody else from the worker, also
/// while it executes a long call.
BOOST_FIXTURE_TEST_CASE(a_flood_does_not_keep_the_client_away,
                        acted_client_world) {
  attach_both();
  std::jthread flood{[&](const std::stop_token& stop) {
    talker stranger{zmq, link_options::form::connect,
                    worker.endpoints.endpoint};
    while (!stop.stop_requested() && stranger.reaches(data::keepalive{}, {}, 7))
      continue;
  }};
  loading->close();
  load();
  say(first, range());
  for (int i = 0; i < 3; ++i)
    await_progress();
  loading->open();
  // The call ends, and the session goes on in its epoch.
  BOOST_TEST((first.next<data::answer>().result == CUDA_SUCCESS));
  append(call::device_sync{}, 1);
  say(first, range());
  BOOST_TEST((first.next<data::answer>().result == CUDA_SUCCESS));
}

BOOST_FIXTURE_TEST_CASE(a_strangers_connection_is_refused, acted_client_world) {
  talker stranger{zmq, link_options::form::connect, worker.endpoints.endpoint};
  auto is_refused = [&](data::body what, std::span<const std::byte> payload) {
    stranger.say(std::move(what), payload);
    auto x = stranger.hear(120s);
    return x && std::holds_alternative<data::refused>(x->head.body);
  };
  auto [calls, bytes_of] = allocation();
  // There is no client yet.
  BOOST_TEST(is_refused(data::join{token}, {}));
  attach_both();
  BOOST_TEST(is_refused(calls, bytes_of));
  BOOST_TEST(is_refused(data::join{token + 1}, {}));
  BOOST_TEST(is_refused(calls, bytes_of));
  // A client that shows its lease again must also join again.
  first.say(lease_shown());
  (void)first.next<data::attached>();
  second->say(calls, bytes_of);
  BOOST_TEST(!second->next<data::refused>().why.empty());
  second->say(data::join{token});
  (void)second->next<data::join>();
  second->say(calls, bytes_of);
  first.say(data::keepalive{.sent = calls.to});
  for (auto now = first.next<data::progress>(); now.executed != calls.to;
       now = first.next<data::progress>())
    first.say(data::keepalive{.sent = calls.to});
}

BOOST_AUTO_TEST_SUITE_END()
