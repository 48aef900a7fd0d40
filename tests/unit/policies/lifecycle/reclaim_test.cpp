// Idle sessions are suspended, in virtual time.
#include "policies/lifecycle/reclaim.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <random>
#include <string>

using namespace vgpu;
using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

constexpr time_point start{std::chrono::hours{1}};

idle_session session(std::uint64_t id, duration active, duration after,
                     const std::string& node = "a") {
  return {{id}, node, start + active, after, {}};
}

std::vector<std::uint64_t> chosen(const std::vector<idle_session>& all,
                                  const suspensions& under_way, duration now,
                                  const reclaim_options& options = {}) {
  std::vector<std::uint64_t> out;
  for (auto x : choose_idle(all, under_way, start + now, options).now)
    out.push_back(x.value);
  return out;
}

using ids = std::vector<std::uint64_t>;

} // namespace

BOOST_AUTO_TEST_SUITE(reclaiming)

BOOST_AUTO_TEST_CASE(a_session_is_suspended_after_its_idle_time) {
  std::vector<idle_session> all{session(1, 0s, 5s), session(2, 1s, 2s)};
  BOOST_TEST(chosen(all, {}, 2999ms) == ids{});
  BOOST_TEST(chosen(all, {}, 3s) == ids{2});
  BOOST_TEST(chosen(all, {}, 5s) == (ids{1, 2}));
  auto look = choose_idle(all, {}, start + 1s, {}).look_again;
  BOOST_REQUIRE(look.has_value());
  BOOST_TEST((*look == start + 3s));
  BOOST_TEST(!choose_idle({}, {}, start, {}).look_again.has_value());
}

BOOST_AUTO_TEST_CASE(the_longest_idle_go_first_and_few_at_a_time) {
  std::vector<idle_session> all;
  for (std::uint64_t i = 1; i <= 10; ++i)
    all.push_back(session(i, 10s - std::chrono::seconds{i}, 1s));
  BOOST_TEST(chosen(all, {}, 1min) == (ids{10, 9, 8, 7}));
  BOOST_TEST(chosen(all, {{"a", 3}}, 1min) == ids{10});
  BOOST_TEST(chosen(all, {{"a", 4}}, 1min) == ids{});
  BOOST_TEST(chosen(all, {{"a", 9}}, 1min) == ids{});
}

/// Each node copies memory independently of the others.
BOOST_AUTO_TEST_CASE(nodes_suspend_independently) {
  std::vector<idle_session> all;
  for (std::uint64_t i = 1; i <= 12; ++i)
    all.push_back(session(i, std::chrono::seconds{i}, 1s, i <= 6 ? "a" : "b"));
  BOOST_TEST(chosen(all, {}, 1min) == (ids{1, 2, 3, 4, 7, 8, 9, 10}));
  BOOST_TEST(chosen(all, {{"a", 4}}, 1min) == (ids{7, 8, 9, 10}));
  BOOST_TEST(chosen(all, {{"a", 3}, {"b", 2}}, 1min) == (ids{1, 7, 8}));
  BOOST_TEST(chosen(all, {{"c", 9}}, 1min).size() == 8u);
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_suspended_rests_longer) {
  reclaim_options options;
  BOOST_TEST((rest_after(1, start, options) == start + 30s));
  BOOST_TEST((rest_after(2, start, options) == start + 60s));
  BOOST_TEST((rest_after(50, start, options) == start + 1h));
  std::vector<idle_session> all{session(1, 0s, 1s)};
  all[0].rests_until = rest_after(1, start + 1s, options);
  BOOST_TEST(chosen(all, {}, 30s) == ids{});
  BOOST_TEST(chosen(all, {}, 31s) == ids{1});
}

/// A hundred programs call now and then, on memory for eight. A program that
/// calls gets a place within the idle time of another.
BOOST_AUTO_TEST_CASE(many_idle_sessions_share_few_places) {
  constexpr auto step = 50ms;
  constexpr std::size_t places = 8;
  struct program {
    time_point next_call;
    time_point active;
    bool placed = false;
    bool waits = false;
  };
  std::mt19937 random{7};
  std::exponential_distribution<double> pause{1.0 / 60};
  auto later = [&](time_point from) {
    return from + std::chrono::milliseconds{
                      static_cast<int>(1000 * (2 + pause(random)))};
  };
  std::map<std::uint64_t, program> all;
  for (std::uint64_t i = 1; i <= 100; ++i)
    all[i] = {later(start), start};
  std::size_t placed = 0;
  std::size_t calls = 0;
  duration longest{0};
  for (auto now = start; now < start + 30min; now += step) {
    std::vector<idle_session> view;
    for (auto& [id, x] : all)
      if (x.placed)
        view.push_back({{id}, "a", x.active, 1s, {}});
    for (auto id : choose_idle(view, {}, now, {}).now) {
      all[id.value].placed = false;
      --placed;
    }
    for (auto& [id, x] : all) {
      if (now < x.next_call)
        continue;
      if (!x.placed && placed == places)
        continue; // waits
      placed += x.placed ? 0 : 1;
      x.placed = true;
      longest = std::max(longest, now - x.next_call);
      x.active = now;
      x.next_call = later(now);
      ++calls;
    }
    BOOST_REQUIRE(placed <= places);
  }
  BOOST_TEST(calls > 2000u);
  BOOST_TEST((longest <= 2s));
}

BOOST_AUTO_TEST_SUITE_END()
