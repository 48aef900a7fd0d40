// Whose turn with memory ends for whom.
#include "policies/rotation.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace vgpu;
using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

constexpr auto gibibyte = std::uint64_t{1} << 30;
const time_point began{100s};

struct tenants {
  cluster_view cluster;
  std::vector<resident> all;
  rotation_options options;

  /// One node of so many pGPUs of 4 GiB.
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
    return make_room(cluster, what, priority, all, began + now, options);
  }
  /// Who leaves now, by number.
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

BOOST_AUTO_TEST_SUITE(rotation)

BOOST_AUTO_TEST_CASE(who_has_been_there_longest_leaves) {
  tenants x;
  x.has(1, gibibyte, 1s);
  x.has(2, gibibyte);
  x.has(3, 2 * gibibyte, 500ms);
  BOOST_TEST(x.leave(gibibyte, 10s) == sessions{2});
  BOOST_TEST(x.leave(2 * gibibyte, 10s) == sessions{3}); // 2 alone would not do
  BOOST_TEST(x.leave(3 * gibibyte, 10s) == (sessions{2, 3}));
  BOOST_TEST(x.leave(4 * gibibyte, 10s) == (sessions{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(not_before_its_turn_is_over) {
  tenants x;
  x.has(1, 2 * gibibyte);
  x.has(2, 2 * gibibyte, 1s);
  auto early = x.wants(2 * gibibyte, 1s);
  BOOST_TEST(early.leave.empty());
  BOOST_TEST((early.look_again == began + 2s));
  BOOST_TEST(x.leave(2 * gibibyte, 2s) == sessions{1});
  BOOST_TEST((x.wants(4 * gibibyte, 2s).look_again == began + 3s));
}

BOOST_AUTO_TEST_CASE(turns_are_longer_the_longer_it_takes_to_swap) {
  resident x;
  x.since = began;
  rotation_options options;
  options.swapped_part = 0.2;
  BOOST_TEST((turn_ends(x, options) == began + 2s)); // the shortest
  x.swap = 3s;
  BOOST_TEST((turn_ends(x, options) == began + 12s)); // 3 of 15
  options.swapped_part = 0.5;
  BOOST_TEST((turn_ends(x, options) == began + 3s));
  x.swap = 0s;
  x.state = 20 * gibibyte; // nothing was measured yet
  BOOST_TEST((turn_ends(x, options) > began + 30s));
  x.rests_until = began + 1h;
  BOOST_TEST((turn_ends(x, options) == began + 1h));
}

BOOST_AUTO_TEST_CASE(nobody_leaves_for_a_lower_priority) {
  tenants x;
  x.has(1, 2 * gibibyte).priority = 1;
  x.has(2, 2 * gibibyte, 1s);
  BOOST_TEST(x.leave(2 * gibibyte, 10s) == sessions{2});
  BOOST_TEST(x.leave(4 * gibibyte, 10s).empty());
  BOOST_TEST(!x.wants(4 * gibibyte, 10s).look_again);
  BOOST_TEST(x.leave(4 * gibibyte, 10s, 1) == (sessions{1, 2}));
}

BOOST_AUTO_TEST_CASE(no_more_leave_than_it_takes) {
  tenants x{2};
  x.has(1, gibibyte);
  x.has(2, gibibyte, 100ms, 1);
  x.has(3, 3 * gibibyte, 200ms);
  x.has(4, 3 * gibibyte, 300ms, 1);
  // Those of the other pGPU, and 1, make no difference.
  BOOST_TEST(x.leave(3 * gibibyte, 10s) == sessions{3});
  BOOST_TEST(x.leave(gibibyte, 10s) == sessions{1});
  BOOST_TEST(x.leave(5 * gibibyte, 10s).empty()); // never
  // Where there is a place nobody leaves.
  x.all.clear();
  x.cluster.nodes[0].pgpus[1].reserved = 0;
  BOOST_TEST(x.leave(gibibyte, 10s).empty());
}

BOOST_AUTO_TEST_SUITE_END()
