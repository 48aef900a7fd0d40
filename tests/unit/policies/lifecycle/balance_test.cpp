// The balance evens out overloaded pGPUs and leaves an even load alone.
#include "policies/lifecycle/balance.hpp"
#include "tests/unit/policies/policy_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <random>

using namespace vgpu;
using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

constexpr time_point balanced_at{1h};

/// Returns nodes a, b and so on with these numbers of pGPUs of 4 GiB, on one
/// host.
balance_view level_ground(std::vector<std::uint32_t> pgpus) {
  balance_view out;
  for (std::size_t i = 0; i < pgpus.size(); ++i) {
    auto& node = out.cluster.nodes.emplace_back();
    node.name = std::string(1, static_cast<char>('a' + i));
    node.host = "h";
    for (auto k = 0u; k < pgpus[i]; ++k) {
      auto& pgpu = node.pgpus.emplace_back();
      pgpu.ordinal = k;
      pgpu.memory = 4 * gib;
      pgpu.backend = "cpu";
      pgpu.model = "soft";
    }
  }
  return out;
}

pgpu_view* pgpu_at(balance_view& view, const std::string& node,
                   std::uint32_t ordinal) {
  for (auto& x : view.cluster.nodes)
    for (auto& pgpu : x.pgpus)
      if (x.name == node && pgpu.ordinal == ordinal)
        return &pgpu;
  return nullptr;
}

void count_memory(balance_view& view, const balanced_vgpu& x, bool there) {
  for (auto ordinal : x.where.pgpus) {
    auto& at = *pgpu_at(view, x.where.node, ordinal);
    auto held = std::max(x.bytes, x.constraints.memory);
    at.held = there ? at.held + held : at.held - held;
    at.reserved = there ? at.reserved + x.constraints.memory
                        : at.reserved - x.constraints.memory;
  }
}

balanced_vgpu& add(balance_view& view, place where, double load = 1,
                   std::uint64_t bytes = 1 << 20) {
  auto& x = view.vgpus.emplace_back();
  x.id = vgpu_id{view.vgpus.size()};
  x.where = std::move(where);
  x.constraints.gpus = static_cast<std::uint32_t>(x.where.pgpus.size());
  x.constraints.host = "h";
  x.load = load;
  x.bytes = bytes;
  count_memory(view, x, true);
  return x;
}

/// Changes the view as the finished migration does.
void apply_move(balance_view& view, const balance_move& move) {
  auto& x = view.vgpus.at(move.vgpu.value - 1);
  count_memory(view, x, false);
  x.where = move.to;
  count_memory(view, x, true);
}

std::string told(const std::optional<balance_move>& x) {
  if (!x)
    return "none";
  return std::to_string(x->vgpu.value) + " " + x->from.node +
         std::to_string(x->from.pgpus.at(0)) + " " + x->to.node +
         std::to_string(x->to.pgpus.at(0));
}

std::string next(const balance_view& view, const balance_options& how = {},
                 time_point now = balanced_at) {
  return told(choose_move(view, now, how));
}

} // namespace

BOOST_AUTO_TEST_SUITE(balance)

BOOST_AUTO_TEST_CASE(the_smallest_sessions_migrate_until_the_load_is_even) {
  auto view = level_ground({1, 1});
  for (auto i = 1u; i <= 8; ++i)
    add(view, {"a", {0}}, 1, (9 - i) << 20);
  std::string moves;
  while (auto move = choose_move(view, balanced_at, {})) {
    apply_move(view, *move);
    moves += told(move) + "; ";
  }
  BOOST_TEST(moves == "8 a0 b0; 7 a0 b0; 6 a0 b0; 5 a0 b0; ");
  BOOST_TEST(imbalance_of(view) < 1e-9);
}

BOOST_AUTO_TEST_CASE(a_migration_without_a_gain_is_not_chosen) {
  struct row {
    std::vector<double> a, b;
    std::string move;
  };
  for (const auto& x : std::vector<row>{
           {{1}, {}, "none"},              // it has a pGPU for itself
           {{0.5, 0.5}, {}, "none"},       // no session waits
           {{1, 1}, {}, "1 a0 b0"},        //
           {{1, 1}, {1}, "none"},          // it would gain nothing
           {{1, 1, 1}, {1}, "1 a0 b0"},    //
           {{1, 1, 1}, {1, 1}, "none"},    //
           {{1, 0.1}, {}, "none"},         // too little to be felt
           {{1, 0.1, 0.1}, {}, "none"},    // a gain of less than the margin
           {{1, 0.2, 0.2}, {}, "1 a0 b0"}, // all get enough then
           {{1, 0.6}, {}, "1 a0 b0"},      //
           {{0, 0, 0, 0, 0}, {}, "none"}}) {
    auto view = level_ground({1, 1});
    for (auto load : x.a)
      add(view, {"a", {0}}, load);
    for (auto load : x.b)
      add(view, {"b", {0}}, load);
    BOOST_TEST_CONTEXT("a has " << x.a.size() << ", b " << x.b.size())
    BOOST_TEST(next(view) == x.move);
  }
}

BOOST_AUTO_TEST_CASE(the_target_may_be_another_pgpu_of_the_node) {
  auto view = level_ground({3});
  add(view, {"a", {1}});
  add(view, {"a", {1}});
  add(view, {"a", {0}}, 0.3);
  BOOST_TEST(next(view) == "1 a1 a2");
}

BOOST_AUTO_TEST_CASE(a_migrated_session_stays_for_a_while) {
  auto view = level_ground({1, 1});
  add(view, {"a", {0}}).moved = balanced_at;
  add(view, {"a", {0}}).rests_until = balanced_at + 10min;
  balance_options how;
  how.stays_for = 3min;
  BOOST_TEST(next(view, how) == "none");
  BOOST_TEST(next(view, how, balanced_at + 3min - 1ms) == "none");
  BOOST_TEST(next(view, how, balanced_at + 3min) == "1 a0 b0");
  view.vgpus[0].movable = false;
  BOOST_TEST(next(view, how, balanced_at + 10min - 1ms) == "none");
  BOOST_TEST(next(view, how, balanced_at + 10min) == "2 a0 b0");
}

BOOST_AUTO_TEST_CASE(constraints_and_memory_are_respected) {
  auto fresh = [] {
    auto view = level_ground({1, 1});
    add(view, {"a", {0}});
    add(view, {"a", {0}});
    view.vgpus[1].movable = false;
    return view;
  };
  BOOST_TEST(next(fresh()) == "1 a0 b0");
  using change = std::function<void(balance_view&)>;
  std::vector<change> forbidden{
      [](auto& v) { v.vgpus[0].constraints.node = "a"; },
      [](auto& v) { v.vgpus[0].constraints.beside_somebody = true; },
      [](auto& v) {
        v.vgpus[0].constraints.apart = {{"b", {0}}};
      },
      [](auto& v) { v.vgpus[0].constraints.gpus = 2; },
      [](auto& v) { v.cluster.nodes[1].host = "other"; },
      [](auto& v) { v.cluster.nodes[1].alive = false; },
      [](auto& v) { v.cluster.nodes[1].pgpus[0].healthy = false; },
      [](auto& v) { v.cluster.nodes[1].pgpus[0].model = "another"; },
      [](auto& v) { v.cluster.nodes[1].pgpus[0].backend = "nvidia"; },
      [](auto& v) { v.cluster.nodes[1].pgpus[0].memory = 3 * gib; },
      [](auto& v) { v.cluster.nodes[1].pgpus[0].held = 4 * gib; },
      [](auto& v) {
        v.vgpus[0].constraints.memory = gib;
        v.cluster.nodes[1].pgpus[0].reserved = 4 * gib;
      },
      [](auto& v) {
        v.vgpus[0].constraints.share = 0.5;
        add(v, {"b", {0}}, 0).constraints.share = 0.6;
      }};
  for (std::size_t i = 0; i < forbidden.size(); ++i) {
    auto view = fresh();
    forbidden[i](view);
    BOOST_TEST_CONTEXT("change " << i) {
      BOOST_TEST(next(view) == "none");
    }
  }
  // A session that may run anywhere may leave its host, and so may one that
  // runs on another host already.
  auto view = fresh();
  view.cluster.nodes[1].host = "other";
  view.vgpus[0].constraints.where = demand::locality::any;
  BOOST_TEST(next(view) == "1 a0 b0");
  view.vgpus[0].constraints.where = demand::locality::local_first;
  view.vgpus[0].constraints.host = "third";
  BOOST_TEST(next(view) == "1 a0 b0");
}

BOOST_AUTO_TEST_CASE(a_drained_node_is_emptied_and_gets_no_session) {
  auto view = level_ground({1, 1, 1});
  view.cluster.nodes[0].alive = false;
  view.cluster.nodes[0].draining = true;
  add(view, {"a", {0}}, 0);
  add(view, {"a", {0}}, 0.1, 1).moved = balanced_at;
  add(view, {"b", {0}}, 0.5);
  BOOST_TEST(next(view) == "2 a0 c0");
  apply_move(view, *choose_move(view, balanced_at, {}));
  BOOST_TEST(next(view) == "1 a0 c0");
  apply_move(view, *choose_move(view, balanced_at, {}));
  BOOST_TEST(next(view) == "none");
  // The drained node is empty, and still gets no session.
  for (auto i = 0; i < 6; ++i)
    add(view, {i % 2 == 0 ? "b" : "c", {0}});
  BOOST_TEST(next(view) == "none");
}

BOOST_AUTO_TEST_CASE(a_load_is_the_part_that_a_session_would_use_alone) {
  // There was idle time, so no session waited.
  BOOST_TEST(load_of(0.3, 0.6, 2, 1) == 0.3);
  BOOST_TEST(load_of(1, 1, 1, 1) == 1);
  // With almost no idle time the estimate is in between.
  BOOST_TEST((load_of(0.4, 0.8, 2, 1) > 0.5 && load_of(0.4, 0.8, 2, 1) < 0.7));
  // Eight sessions that take turns would each use all of it.
  BOOST_TEST(load_of(0.125, 1, 8, 1) == 1);
  // A device that works for several sessions at once reports their sum.
  BOOST_TEST(load_of(0.1, 2.1, 3, 1) < 0.15);
  BOOST_TEST(load_of(1, 8, 8, 1) == 1);
  // A load is at most the session's limit.
  BOOST_TEST(load_of(0.25, 1, 4, 0.25) == 0.25);
  BOOST_TEST(load_of(3, 3, 1, 1) == 1);
  BOOST_TEST(load_of(0, 0, 0, 1) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

// -- any view -----------------------------------------------------------------

namespace {

struct uneven_cluster {
  std::mt19937 random;
  balance_view view;

  std::uint32_t below(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>{0, n - 1}(random);
  }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

  explicit uneven_cluster(unsigned seed, bool with_drains) : random(seed) {
    std::vector<std::uint32_t> pgpus;
    for (auto n = 1 + below(5); n > 0; --n)
      pgpus.push_back(1 + below(3));
    view = level_ground(pgpus);
    for (auto& node : view.cluster.nodes) {
      node.host = one_in(3) ? "other" : "h";
      node.draining = with_drains && one_in(3);
      node.alive = !node.draining && !one_in(8);
      for (auto& pgpu : node.pgpus) {
        pgpu.healthy = !one_in(8);
        pgpu.memory = (1 + below(4)) * gib;
        pgpu.model = one_in(4) ? "big" : "soft";
      }
    }
    for (auto n = below(30); n > 0; --n)
      populate();
  }

  void populate() {
    auto& node = view.cluster.nodes[below(
        static_cast<std::uint32_t>(view.cluster.nodes.size()))];
    auto size = static_cast<std::uint32_t>(node.pgpus.size());
    place where{node.name, {below(size)}};
    auto& at = *pgpu_at(view, node.name, where.pgpus[0]);
    std::uint64_t bytes = below(1024) << 20;
    if (at.held + bytes > at.memory)
      return;
    auto& x = add(view, where, below(11) / 10.0, bytes);
    if (one_in(3) && at.held <= at.memory - gib) {
      count_memory(view, x, false);
      x.constraints.memory = gib;
      count_memory(view, x, true);
    }
    x.constraints.share = one_in(3) ? 0.3 : 1;
    x.constraints.host = one_in(2) ? "h" : "other";
    x.constraints.node = one_in(6) ? node.name : "";
    x.constraints.pgpu = one_in(6) ? static_cast<int>(where.pgpus[0]) : -1;
    x.constraints.where = one_in(6)   ? demand::locality::local_only
                          : one_in(2) ? demand::locality::any
                                      : demand::locality::local_first;
    if (one_in(6))
      x.constraints.apart = {{"a", {0}}};
    if (one_in(8)) {
      x.constraints.beside_somebody = true;
      x.constraints.beside = {where};
    }
    x.movable = !one_in(10);
  }

  /// Checks a migration against all rules.
  void check(const balance_move& move) {
    const auto& x = view.vgpus.at(move.vgpu.value - 1);
    BOOST_TEST_REQUIRE((x.where == move.from && x.movable));
    BOOST_TEST_REQUIRE(move.to.pgpus.size() == 1u);
    BOOST_TEST_REQUIRE((move.from != move.to));
    auto* to = pgpu_at(view, move.to.node, move.to.pgpus[0]);
    auto* from = pgpu_at(view, move.from.node, move.from.pgpus[0]);
    BOOST_TEST_REQUIRE((to != nullptr && to->healthy));
    BOOST_TEST(to->model == from->model);
    BOOST_TEST(to->held + std::max(x.bytes, x.constraints.memory) <=
               to->memory);
    BOOST_TEST(
        (x.constraints.node.empty() || x.constraints.node == move.to.node));
    BOOST_TEST((x.constraints.pgpu < 0 ||
                std::uint32_t(x.constraints.pgpu) == to->ordinal));
    BOOST_TEST(!x.constraints.beside_somebody);
    for (const auto& apart : x.constraints.apart)
      BOOST_TEST((apart != move.to));
    for (const auto& node : view.cluster.nodes)
      if (node.name == move.to.node) {
        BOOST_TEST((node.alive && !node.draining));
        BOOST_TEST((x.constraints.where != demand::locality::local_only ||
                    node.host == x.constraints.host));
      }
  }

  bool is_drained(const std::string& name) const {
    for (const auto& node : view.cluster.nodes)
      if (node.name == name)
        return node.draining;
    return false;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(balance_of_any_cluster)

BOOST_AUTO_TEST_CASE(every_migration_makes_the_load_more_even) {
  balance_options how;
  how.stays_for = 0s; // nothing but the margin ends it
  auto step = 2 * how.margin * how.margin;
  std::size_t moves = 0;
  for (auto seed = 1u; seed <= 2'000; ++seed) {
    uneven_cluster any{seed, seed % 2 == 0};
    BOOST_TEST_CONTEXT("seed " << seed) {
      auto most =
          any.view.vgpus.size() + static_cast<std::size_t>(30.0 * 30.0 / step);
      auto count = std::size_t{0};
      while (auto move = choose_move(any.view, balanced_at, how)) {
        any.check(*move);
        auto before = imbalance_of(any.view);
        apply_move(any.view, *move);
        if (!any.is_drained(move->from.node))
          BOOST_TEST_REQUIRE(imbalance_of(any.view) <= before - step + 1e-9);
        BOOST_TEST_REQUIRE(++count <= most);
      }
      moves += count;
    }
  }
  BOOST_TEST(moves > 1'000u);
}

BOOST_AUTO_TEST_SUITE_END()
