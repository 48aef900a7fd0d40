// Which sessions yield their memory, and for which.
#include "policies/lifecycle/memory_swapping.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <variant>

using namespace vgpu;
using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

constexpr auto gibibyte = std::uint64_t{1} << 30;
const time_point began{100s};

/// Like make_room(), for a cluster that may have room already.
room_decision make_room_in(const cluster_view& cluster, const demand& what,
                           std::int32_t priority, std::vector<resident> all,
                           time_point now, const swapping_options& options) {
  if (std::holds_alternative<place>(choose_place(cluster, what)))
    return {};
  sort_by_turn(all, options);
  auto nodes = [&](const std::string& name) {
    auto there = std::ranges::find(cluster.nodes, name, &node_view::name);
    return there == cluster.nodes.end() ? nullptr : &*there;
  };
  auto at = all.begin();
  auto next = [&] { return at == all.end() ? nullptr : &*at++; };
  return make_room(nodes, what, priority, next, now, options);
}

struct tenants {
  cluster_view cluster;
  std::vector<resident> all;
  swapping_options options;

  /// Makes one node with this many pGPUs of 4 GiB.
  explicit tenants(std::uint32_t count = 1) {
    cluster.nodes.push_back({.name = "a", .host = "h", .pgpus = {}});
    for (auto i = 0u; i < count; ++i)
      cluster.nodes[0].pgpus.push_back({.ordinal = i, .memory = 4 * gibibyte});
  }

  resident& has(std::uint64_t id, std::uint64_t memory, duration since = 0s,
                std::uint32_t pgpu = 0) {
    auto& there = cluster.nodes[0].pgpus[pgpu];
    there.reserved += memory;
    BOOST_TEST_REQUIRE(there.reserved <= there.memory);
    resident x;
    x.id = {id};
    x.where = {"a", {pgpu}};
    x.memory = memory;
    x.since = began + since;
    return all.emplace_back(x);
  }

  room_decision wants(std::uint64_t memory, duration now, int priority = 0) {
    demand what;
    what.memory = memory;
    return make_room_in(cluster, what, priority, all, began + now, options);
  }
  /// Returns the numbers of the sessions that have to yield.
  std::vector<std::uint64_t> leave(std::uint64_t memory, duration now,
                                   int priority = 0) {
    std::vector<std::uint64_t> out;
    for (auto id : wants(memory, now, priority).leave)
      out.push_back(id.value);
    std::sort(out.begin(), out.end());
    return out;
  }
};

using sessions = std::vector<std::uint64_t>;

} // namespace

BOOST_AUTO_TEST_SUITE(memory_swapping)

BOOST_AUTO_TEST_CASE(the_session_with_the_longest_turn_yields) {
  tenants x;
  x.has(1, gibibyte, 1s);
  x.has(2, gibibyte);
  x.has(3, 2 * gibibyte, 500ms);
  BOOST_TEST(x.leave(gibibyte, 10s) == sessions{2});
  BOOST_TEST(x.leave(2 * gibibyte, 10s) == sessions{3}); // 2 alone would not do
  BOOST_TEST(x.leave(3 * gibibyte, 10s) == (sessions{2, 3}));
  BOOST_TEST(x.leave(4 * gibibyte, 10s) == (sessions{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(no_session_yields_before_its_turn_is_over) {
  tenants x;
  x.has(1, 2 * gibibyte);
  x.has(2, 2 * gibibyte, 1s);
  auto early = x.wants(2 * gibibyte, 1s);
  BOOST_TEST(early.leave.empty());
  BOOST_TEST((early.look_again == began + 2s));
  BOOST_TEST(x.leave(2 * gibibyte, 2s) == sessions{1});
  BOOST_TEST((x.wants(4 * gibibyte, 2s).look_again == began + 3s));
}

BOOST_AUTO_TEST_CASE(a_search_in_vain_covers_larger_requests) {
  tenants x{2};
  x.has(1, gibibyte);
  x.has(2, gibibyte).priority = 1;
  x.has(3, 2 * gibibyte, 0s, 1);
  x.has(4, 2 * gibibyte, 0s, 1).priority = 1;
  auto got = x.wants(4 * gibibyte, 10s);
  BOOST_TEST(got.leave.empty());
  BOOST_TEST(!got.look_again.has_value());
  BOOST_REQUIRE(got.most_room.has_value());
  BOOST_TEST(*got.most_room == 3 * gibibyte);
  vain_searches vain;
  vain.note(0, got);
  BOOST_TEST(vain.cover(0, 3 * gibibyte + 1));
  BOOST_TEST(!vain.cover(0, 3 * gibibyte));
  BOOST_TEST(!vain.cover(1, 4 * gibibyte)); // others yield to this priority
  BOOST_TEST(x.wants(3 * gibibyte + 1, 10s).leave.empty());
  // A request that finds sessions to yield is not a search in vain.
  got = x.wants(3 * gibibyte, 10s);
  BOOST_TEST(got.leave.size() == 1u);
  BOOST_TEST(!got.most_room.has_value());
  vain.note(0, got);
  BOOST_TEST(!vain.cover(0, 4 * gibibyte));
}

BOOST_AUTO_TEST_CASE(turns_grow_with_the_time_that_swapping_takes) {
  resident x;
  x.since = began;
  swapping_options options;
  options.swapped_part = 0.2;
  BOOST_TEST((turn_ends(x, options) == began + 2s)); // the shortest
  x.swap = 3s;
  BOOST_TEST((turn_ends(x, options) == began + 12s)); // 3 of 15
  options.swapped_part = 0.5;
  BOOST_TEST((turn_ends(x, options) == began + 3s));
  x.swap = 0s;
  x.state = 20 * gibibyte; // no measurement yet
  BOOST_TEST((turn_ends(x, options) > began + 30s));
  x.rests_until = began + 1h;
  BOOST_TEST((turn_ends(x, options) == began + 1h));
}

BOOST_AUTO_TEST_CASE(no_session_yields_to_a_lower_priority) {
  tenants x;
  x.has(1, 2 * gibibyte).priority = 1;
  x.has(2, 2 * gibibyte, 1s);
  BOOST_TEST(x.leave(2 * gibibyte, 10s) == sessions{2});
  BOOST_TEST(x.leave(4 * gibibyte, 10s).empty());
  BOOST_TEST(!x.wants(4 * gibibyte, 10s).look_again);
  BOOST_TEST(x.leave(4 * gibibyte, 10s, 1) == (sessions{1, 2}));
}

BOOST_AUTO_TEST_CASE(no_more_sessions_yield_than_needed) {
  tenants x{2};
  x.has(1, gibibyte);
  x.has(2, gibibyte, 100ms, 1);
  x.has(3, 3 * gibibyte, 200ms);
  x.has(4, 3 * gibibyte, 300ms, 1);
  // Sessions 1, 2 and 4 make no difference.
  BOOST_TEST(x.leave(3 * gibibyte, 10s) == sessions{3});
  BOOST_TEST(x.leave(gibibyte, 10s) == sessions{1});
  BOOST_TEST(x.leave(5 * gibibyte, 10s).empty()); // never
  // No session yields where there is room.
  x.all.clear();
  x.cluster.nodes[0].pgpus[1].reserved = 0;
  BOOST_TEST(x.leave(gibibyte, 10s).empty());
}

// A plain version of make_room(): after each session that yields it looks at
// the whole cluster, and afterwards tries without each of them.
BOOST_AUTO_TEST_CASE(make_room_agrees_with_a_search_of_the_whole_cluster) {
  std::mt19937 random{7};
  auto roll = [&](std::uint64_t sides) { return random() % sides; };
  auto found = 0, awaited = 0;
  for (auto round = 0; round < 2000; ++round) {
    cluster_view cluster;
    for (const auto* name : {"a", "b", "c"}) {
      cluster.nodes.push_back({.name = name, .host = name, .pgpus = {}});
      for (auto p = 0u; p < 2; ++p)
        cluster.nodes.back().pgpus.push_back({.ordinal = p, .memory = 8});
    }
    std::vector<resident> all;
    for (auto id = 1u; id <= 14; ++id) {
      auto& node = cluster.nodes[roll(3)];
      auto& pgpu = node.pgpus[roll(2)];
      auto memory = 1 + roll(5);
      if (pgpu.reserved + memory > pgpu.memory)
        continue;
      pgpu.reserved += memory;
      resident x;
      x.id = {id};
      x.where = {node.name, {pgpu.ordinal}};
      x.memory = memory;
      x.priority = static_cast<std::int32_t>(roll(2));
      x.since = began + 1s * static_cast<int>(roll(9));
      all.push_back(x);
    }
    demand what;
    what.memory = 2 + roll(7);
    what.gpus = 1 + static_cast<std::uint32_t>(roll(2));
    if (roll(4) == 0)
      what.node = "b";
    auto now = began + 1s * static_cast<int>(2 + roll(9));
    auto got = make_room_in(cluster, what, 0, all, now, {});

    auto fits = [&](const std::vector<const resident*>& gone) {
      auto left = cluster;
      for (const auto* x : gone)
        for (auto& node : left.nodes)
          if (node.name == x->where.node)
            node.pgpus[x->where.pgpus[0]].reserved -= x->memory;
      return std::holds_alternative<place>(choose_place(left, what));
    };
    std::vector<const resident*> order;
    for (const auto& x : all)
      if (x.priority <= 0)
        order.push_back(&x);
    std::ranges::sort(order, {}, [](const auto* x) {
      return std::pair{x->since, x->id.value};
    });
    std::vector<const resident*> gone;
    for (const auto* x : order)
      if (!fits(gone))
        gone.push_back(x);
    if (!fits(gone))
      gone.clear();
    for (auto i = gone.size(); i-- > 0;) {
      auto fewer = gone;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits(fewer))
        gone = fewer;
    }
    std::vector<std::uint64_t> wanted, left;
    auto last = now;
    for (const auto* x : gone) {
      wanted.push_back(x->id.value);
      last = std::max(last, turn_ends(*x, {}));
    }
    for (auto id : got.leave)
      left.push_back(id.value);
    std::ranges::sort(wanted);
    std::ranges::sort(left);
    // A larger request finds no room either.
    auto more = what;
    ++more.memory;
    if (left.empty() && gone.size() != 0)
      BOOST_TEST(make_room_in(cluster, more, 0, all, now, {}).leave.empty());
    if (last > now) {
      BOOST_TEST(left.empty());
      BOOST_TEST((got.look_again == last));
      ++awaited;
    } else {
      BOOST_TEST(left == wanted);
      BOOST_TEST(!got.look_again);
      found += left.empty() ? 0 : 1;
    }
  }
  // Both outcomes occur often.
  BOOST_TEST(found > 200);
  BOOST_TEST(awaited > 200);
}

BOOST_AUTO_TEST_SUITE_END()
