// The index answers as a look at every node does.
#include "policies/placement_index.hpp"
#include "units.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>

using namespace vgpu;
using namespace vgpu::policy;

namespace {

std::mt19937 dice{5};

std::uint64_t roll(std::uint64_t sides) {
  return dice() % sides;
}

cluster_view any_cluster() {
  cluster_view out;
  for (auto n = 0u; n < 30; ++n) {
    auto& node = out.nodes.emplace_back();
    node.name = "n" + std::to_string(roll(100'000)) + "-" + std::to_string(n);
    node.host = "h" + std::to_string(n % 20);
    node.alive = roll(10) != 0;
    for (auto p = 0u; p < 1 + roll(8); ++p)
      node.pgpus.push_back({p, (8 + roll(73)) * gib, 0, 0, 0, roll(12) != 0,
                            roll(2) == 0 ? "cpu" : "nvidia"});
  }
  return out;
}

/// Mostly what the index answers by itself.
demand any_demand(const cluster_view& cluster) {
  demand out;
  out.share = 1.0 / static_cast<double>(1 + roll(8));
  out.memory = roll(4) == 0 ? 0 : 1 + roll(60 * gib);
  out.host = "h" + std::to_string(roll(25));
  out.where =
      roll(2) == 0 ? demand::locality::any : demand::locality::local_first;
  if (roll(10) == 0)
    out.gpus = 2;
  if (roll(10) == 0)
    out.node = cluster.nodes[roll(cluster.nodes.size())].name;
  if (roll(20) == 0)
    out.where = demand::locality::local_only;
  return out;
}

std::string text(const std::variant<place, no_place>& x) {
  if (auto* none = std::get_if<no_place>(&x))
    return "none: " + none->why;
  const auto& where = std::get<place>(x);
  auto out = where.node;
  for (auto pgpu : where.pgpus)
    out += "/" + std::to_string(pgpu);
  return out;
}

void compare(placement_strategy how) {
  for (auto trial = 0; trial < 20; ++trial) {
    placement_index index{any_cluster(), how};
    std::vector<std::pair<place, demand>> here;
    for (auto step = 0; step < 400; ++step) {
      if (!here.empty() && roll(3) == 0) {
        auto i = here.begin() + static_cast<long>(roll(here.size()));
        index.give(i->first, i->second);
        here.erase(i);
      }
      auto what = any_demand(index.cluster());
      auto got = index.choose(what);
      BOOST_REQUIRE_EQUAL(text(got),
                          text(choose_place(index.cluster(), what, how)));
      if (auto* where = std::get_if<place>(&got)) {
        index.take(*where, what);
        here.emplace_back(*where, what);
      }
    }
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(indices)

BOOST_AUTO_TEST_CASE(it_answers_the_same_by_every_strategy) {
  compare(placement_strategy::least_loaded);
  compare(placement_strategy::bin_pack);
  compare(placement_strategy::spread);
}

BOOST_AUTO_TEST_CASE(bin_pack_fills_one_before_it_begins_another) {
  cluster_view cluster;
  for (auto name : {"a", "b"}) {
    cluster.nodes.push_back({name, "h", true, {}});
    for (auto i = 0u; i < 2; ++i)
      cluster.nodes.back().pgpus.push_back({i, 80 * gib, 0, 0, 0, true, "cpu"});
  }
  demand quarter;
  quarter.share = 0.25;
  quarter.where = demand::locality::any;
  placement_index packed{cluster, placement_strategy::bin_pack};
  placement_index spread{cluster, placement_strategy::spread};
  std::vector<std::string> where;
  std::vector<std::string> apart;
  for (auto i = 0; i < 6; ++i) {
    auto one = packed.choose(quarter);
    where.push_back(text(one));
    packed.take(std::get<place>(one), quarter);
    auto two = spread.choose(quarter);
    apart.push_back(text(two));
    spread.take(std::get<place>(two), quarter);
  }
  BOOST_TEST(where == (std::vector<std::string>{"a/0", "a/0", "a/0", "a/0",
                                                "a/1", "a/1"}));
  BOOST_TEST(apart == (std::vector<std::string>{"a/0", "b/0", "a/1", "b/1",
                                                "a/0", "b/0"}));
  // What fits nowhere goes where least is.
  demand whole = quarter;
  whole.share = 1;
  for (auto i = 0; i < 2; ++i) {
    auto got = packed.choose(whole);
    BOOST_TEST(text(got) == (i == 0 ? "b/0" : "b/1"));
    packed.take(std::get<place>(got), whole);
  }
  BOOST_TEST(text(packed.choose(whole)) == "a/1");
}

BOOST_AUTO_TEST_SUITE_END()
