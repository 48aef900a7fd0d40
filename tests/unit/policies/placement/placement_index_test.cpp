// The index answers like a search of every node.
#include "policies/placement/placement_index.hpp"
#include "tests/unit/policies/policy_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>

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
                            roll(2) == 0 ? "cpu" : "nvidia", "", 0,
                            roll(2) == 0 ? 80 : 90});
  }
  return out;
}

/// Returns a node and some ordinals, which it may not have.
place any_place(const cluster_view& cluster) {
  place out{cluster.nodes[roll(cluster.nodes.size())].name, {}};
  for (auto p = 0u; p < 8; ++p)
    if (roll(3) == 0)
      out.pgpus.push_back(p);
  return out;
}

std::vector<place> any_places(const cluster_view& cluster) {
  std::vector<place> out;
  for (auto i = roll(4); i > 0; --i)
    out.push_back(any_place(cluster));
  return out;
}

/// Adds the places where the session was, and those of others.
void add_a_past(demand& to, const cluster_view& cluster) {
  if (roll(3) == 0)
    to.previous = any_place(cluster);
  if (roll(3) == 0)
    to.failing = any_places(cluster);
  if (roll(3) == 0)
    to.affinity = any_places(cluster);
  if (roll(4) == 0)
    to.apart = any_places(cluster);
  if (roll(8) == 0) {
    to.beside_somebody = true;
    to.beside = any_places(cluster);
  }
  if (roll(6) == 0)
    to.backend = roll(2) == 0 ? "cpu" : "nvidia";
  if (roll(6) == 0)
    to.capability = roll(2) == 0 ? 80 : 90;
  if (roll(6) == 0)
    to.pgpu = static_cast<std::int32_t>(roll(9));
}

/// Returns a random demand, mostly one that the index answers by itself.
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
  if (roll(3) == 0)
    add_a_past(out, cluster);
  return out;
}

std::string text(const std::optional<place>& x) {
  if (!x)
    return "none";
  auto out = x->node;
  for (auto pgpu : x->pgpus)
    out += "/" + std::to_string(pgpu);
  return out;
}

std::string text(const std::variant<place, no_place>& x) {
  if (auto* none = std::get_if<no_place>(&x))
    return "none: " + none->why;
  return text(std::optional{std::get<place>(x)});
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

/// Compares the index with a view for a queue, in which demands without a place
/// have one reserved.
void compare_kept(placement_strategy how) {
  for (auto trial = 0; trial < 20; ++trial) {
    placement_index index{any_cluster(), how};
    for (auto i = 0; i < 150; ++i) {
      auto what = any_demand(index.cluster());
      if (auto got = index.choose(what); std::holds_alternative<place>(got))
        index.take(std::get<place>(got), what);
    }
    for (auto round = 0; round < 5; ++round) {
      const auto before = index.cluster();
      auto seen = before;
      for (auto i = 0; i < 40; ++i) {
        auto what = any_demand(before);
        BOOST_REQUIRE_EQUAL(text(index.choose(what)),
                            text(choose_place(seen, what, how)));
        auto to_keep = place_to_keep(before, what);
        BOOST_REQUIRE_EQUAL(text(index.place_to_keep(what)), text(to_keep));
        if (to_keep && roll(2) == 0) {
          keep(seen, *to_keep);
          index.keep(*to_keep);
        }
      }
      index.release_kept();
      for (std::size_t n = 0; n < before.nodes.size(); ++n)
        for (std::size_t p = 0; p < before.nodes[n].pgpus.size(); ++p)
          BOOST_REQUIRE_EQUAL(before.nodes[n].pgpus[p].reserved,
                              index.cluster().nodes[n].pgpus[p].reserved);
    }
  }
}

/// A policy whose answer the test sets.
struct given_policy : placement_policy {
  std::optional<place> answer;
  bool throws = false;
  std::optional<place> choose(const cluster_view&, const demand&) override {
    if (throws)
      throw std::runtime_error{"out of ideas"};
    return answer;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(indices)

BOOST_AUTO_TEST_CASE(reservations_match_and_can_be_released) {
  compare_kept(placement_strategy::least_loaded);
  compare_kept(placement_strategy::bin_pack);
  compare_kept(placement_strategy::spread);
}

BOOST_AUTO_TEST_CASE(taking_and_giving_back_leaves_no_remainder) {
  cluster_view cluster{{{"a", "h", true, {{0, 80 * gib}}}}};
  placement_index index{cluster, placement_strategy::least_loaded};
  place there{"a", {0}};
  demand tenth;
  tenth.share = 0.1;
  demand fifth;
  fifth.share = 0.2;
  index.take(there, tenth);
  index.take(there, fifth);
  index.give(there, tenth);
  index.give(there, fifth);
  BOOST_TEST(index.cluster().nodes[0].pgpus[0].shares == 0.0);
}

BOOST_AUTO_TEST_CASE(an_answer_of_a_custom_policy_is_checked) {
  auto own = std::make_shared<given_policy>();
  cluster_view cluster{{{"a", "h", true, {{0, 80 * gib}, {1, 8 * gib}}},
                        {"b", "h", false, {{0, 80 * gib}}}}};
  placement_index index{cluster, placement_strategy::least_loaded, own};
  demand what;
  what.memory = 20 * gib;
  own->answer = place{"a", {0}};
  BOOST_TEST(text(index.choose(what)) == "a/0");
  auto why = [&](place answer) {
    own->answer = std::move(answer);
    return text(index.choose(what));
  };
  for (const auto& wrong :
       {place{"c", {0}}, place{"b", {0}}, place{"a", {1}}, place{"a", {7}},
        place{"a", {}}, place{"a", {0, 0}}, place{"a", {0, 1}}})
    BOOST_TEST(why(wrong).starts_with("none: the placement policy named node "
                                      "'" +
                                      wrong.node + "': "));
  own->answer.reset();
  BOOST_TEST(text(index.choose(what)).starts_with("none: no node has 1 "));
  own->throws = true;
  BOOST_TEST(text(index.choose(what)) ==
             "none: the placement policy failed: out of ideas");
}

BOOST_AUTO_TEST_CASE(the_index_matches_a_search_for_every_strategy) {
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
  // A demand that fits nowhere goes to the pGPU with the least load.
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
