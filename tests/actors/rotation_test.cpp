// More memory is promised than there is: sessions that work take turns with it.
#include "manager_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::cluster;
using test::gib;
using test::take;

namespace {

/// Clients and a node that do as they are told, at once, and programs that call
/// all the time.
struct sharers : cluster {
  static constexpr auto turn = 2s;
  std::map<std::uint64_t, lease> running; // by session
  std::map<std::uint64_t, caf::timespan> had;
  std::set<std::uint64_t> refusing; // cannot be suspended
  std::size_t most = 0;

  explicit sharers(double promised) : cluster{false} {
    overcommit = promised;
    start();
    join("a"); // 4 GiB
    connect();
  }

  void wish(std::uint64_t memory, std::int32_t priority = 0) {
    specification spec;
    spec.memory = memory;
    spec.priority = priority;
    ask(spec, "c", ++asked_);
    serve();
  }

  void serve() {
    for (auto some = true; some;) {
      some = false;
      while (auto order = ordered("a")) {
        started("a", *order);
        some = true;
      }
      while (auto got = take<lease>(out, "c")) {
        running[got->first.session.value] = got->first;
        if (had.contains(got->first.session.value))
          say("c", "client/c",
              restored{got->first.session, got->first.epoch, gib, 30});
        some = true;
      }
      while (auto order = take<pause_session>(out, "c")) {
        leaves(order->first);
        some = true;
      }
    }
    most = std::max(most, running.size());
  }

  void leaves(const pause_session& x) {
    auto id = x.session.value;
    auto refused = refusing.contains(id);
    say("c", "client/c",
        paused{x.session, x.epoch, refused ? "a variable is elsewhere" : "",
               refused ? 0 : gib, 20.0, false});
    if (refused)
      return;
    running.erase(id);
    say("c", "client/c", wake_session{x.session}); // it calls at once
  }

  /// They work while this time passes.
  void work(caf::timespan span) {
    for (; span > 0s; span -= 50ms) {
      node_beat beat{"a", 1, {}, {}};
      for (auto& [id, x] : running) {
        beat.sessions.push_back({x.session, x.epoch});
        had[id] += 50ms;
      }
      say("n-a", "node/a", beat);
      advance(50ms);
      serve();
    }
  }

private:
  std::uint64_t asked_ = 100;
};

struct twice_promised : sharers {
  twice_promised() : sharers{3} {}
};
struct once_promised : sharers {
  once_promised() : sharers{1} {}
};

} // namespace

BOOST_AUTO_TEST_SUITE(turns_with_memory)

BOOST_FIXTURE_TEST_CASE(eight_of_which_three_have_room_all_get_on,
                        twice_promised) {
  for (auto i = 0; i < 8; ++i)
    wish(1228 << 20);
  BOOST_TEST(running.size() == 3u);
  work(60s);
  BOOST_TEST(most == 3u);
  BOOST_REQUIRE(had.size() == 8u);
  // 3 of 8 of the time each, but for where a turn has just begun.
  for (auto& [id, time] : had)
    BOOST_TEST(
        (time >= 60s * 3 / 8 - 2 * turn && time <= 60s * 3 / 8 + 2 * turn));
  BOOST_TEST(count("session-preempted") >= 60u);
}

BOOST_FIXTURE_TEST_CASE(large_and_small_ones, twice_promised) {
  wish(3 * gib);
  wish(2 * gib);
  wish(2 * gib);
  wish(1 * gib);
  work(60s);
  BOOST_REQUIRE(had.size() == 4u);
  for (auto& [id, time] : had)
    BOOST_TEST((time >= 10s));
}

BOOST_FIXTURE_TEST_CASE(who_is_alone_stays, twice_promised) {
  wish(3 * gib);
  work(30s);
  BOOST_TEST((had.begin()->second == 30s));
  BOOST_TEST(count("session-preempted") == 0u);
}

BOOST_FIXTURE_TEST_CASE(not_without_leave, once_promised) {
  wish(3 * gib);
  wish(3 * gib);
  work(30s);
  BOOST_TEST(had.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(no_more_is_promised_than_may_be, twice_promised) {
  for (auto i = 0; i < 5; ++i)
    wish(3 * gib); // 12 GiB may be promised
  work(60s);
  BOOST_TEST(had.size() == 4u);
}

BOOST_FIXTURE_TEST_CASE(a_higher_priority_keeps_its_memory, twice_promised) {
  wish(3 * gib, 1);
  wish(3 * gib, 0);
  work(10s);
  BOOST_TEST(had.size() == 1u);
  wish(3 * gib, 2);
  work(10s);
  BOOST_TEST(had.size() == 2u);
  BOOST_TEST(running.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(who_cannot_leave_stays_and_another_leaves,
                        twice_promised) {
  wish(2 * gib);
  wish(2 * gib);
  refusing.insert(running.begin()->first);
  wish(2 * gib);
  work(20s);
  BOOST_TEST((had.at(*refusing.begin()) == 20s));
  BOOST_REQUIRE(had.size() == 3u);
  for (auto& [id, time] : had)
    BOOST_TEST((time >= 6s));
  BOOST_TEST(count("move-failed") == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
