// The table of share policies, and the recipe of policies/compute/README.md
// with a policy that exists only here.
#include "policies/compute/share_grants.hpp"
#include "policies/compute/share_policies.hpp"
#include "tests/unit/policies/compute/thread_model.hpp"
#include "tests/unit/policies/compute/turn_model.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>

using namespace vgpu::policy;

namespace {

constexpr bool is_night_work(const share_claim& x) {
  return x.priority < 0;
}
constexpr double half_at_night(const share_claim& x) {
  return is_night_work(x) ? 0.5 : x.limit;
}
constexpr std::int32_t day_first(const share_claim& x) {
  return is_night_work(x) ? 0 : 1;
}

/// Sessions of negative priority get what the other sessions leave, and at most
/// half of the device.
constexpr share_policy_row night_shift{.name = "night-shift",
                                       .promise = share_terms::promise_share,
                                       .cap = half_at_night,
                                       .rank = day_first};

/// The same without ranks, so that sessions may run concurrently.
constexpr share_policy_row half_shift{.name = "half-shift",
                                      .promise = share_terms::promise_nothing,
                                      .cap = half_at_night,
                                      .concurrent = true};

constexpr share_claim by_day(double share) {
  return {.share = share};
}
constexpr share_claim at_night{.priority = -1};

/// Two sessions whose work takes a tenth of a turn's device time.
struct light_sessions {
  const share_policy_row& policy;
  share_table table{};
  std::array<std::int32_t, 2> seats{};
  share_ns now = 1 * s;

  explicit light_sessions(const share_policy_row& by) : policy(by) {
    for (auto& x : seats)
      x = share_seating{table, policy}.sit({}, now);
  }

  /// Gives each session this many turns. Returns whether they run concurrently
  /// then.
  bool after_turns(int rounds) {
    turn_engine turns{table, policy};
    for (auto i = 0; i < 2 * rounds; ++i) {
      for (auto seat : seats)
        turns.want(seat, now);
      auto outcome = turns.arbitrate(now);
      if (outcome.let_in.any())
        return table.concurrent.is_on();
      BOOST_REQUIRE(outcome.granted != share_table::nobody);
      work(turns, outcome.granted);
    }
    return table.concurrent.is_on();
  }

private:
  void work(turn_engine& turns, std::int32_t seat) {
    turns.begin_work(seat, now);
    now += 10 * ms;
    turns.charge(seat, {10 * ms, ms}, {10 * ms, ms}, now);
    turns.end_work(seat, now, false);
    turns.end_turn(seat);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(share_policy_table)

BOOST_AUTO_TEST_CASE(policies_have_names) {
  for (auto name : share_policy_names) {
    auto parsed = parse_share_policy(name);
    BOOST_REQUIRE(parsed.has_value());
    BOOST_TEST(name_of(*parsed) == name);
  }
  BOOST_TEST(!parse_share_policy("fair").has_value());
}

BOOST_AUTO_TEST_CASE(every_row_is_complete) {
  for (const auto& x : share_policies) {
    BOOST_TEST(!x.name.empty());
    BOOST_CHECK(x.promise != nullptr);
    BOOST_CHECK(x.cap != nullptr);
  }
  BOOST_TEST(list_share_policies() ==
             "best-effort, equal, fixed, guarantee or priority");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_new_share_policy)

BOOST_AUTO_TEST_CASE(grants_follow_a_new_policy) {
  std::vector<share_user> users{
      {by_day(0.4), 1}, {by_day(0.2), 0.1}, {at_night}};
  auto got = grants_of(night_shift, users);
  BOOST_TEST(got[0] + got[1] == 1.0);
  BOOST_TEST(got[2] == 0.0);
  users[0].wants = 0.3;
  got = grants_of(night_shift, users);
  BOOST_TEST(std::abs(got[2] - 0.5) < 1e-9);
}

BOOST_AUTO_TEST_CASE(turns_follow_a_new_policy) {
  turn_model sim{{.joins = 0}, &night_shift};
  sim.add({.claim = by_day(0.5)});
  sim.add({.claim = at_night});
  sim.run(10 * s);
  BOOST_TEST(sim.used(0, 2 * s, 10 * s) / (8 * s) > 0.95);
  BOOST_TEST(sim.used(1, 2 * s, 10 * s) > 0);
  sim.programs[0].to = sim.now;
  auto evening = sim.now + 100 * ms;
  sim.run(5 * s);
  // It is alone, and still gets half of the device.
  BOOST_TEST(std::abs(sim.used(1, evening, sim.now) /
                          static_cast<double>(sim.now - evening) -
                      0.5) < two_points);
}

BOOST_AUTO_TEST_CASE(threads_follow_a_new_policy) {
  thread_model sim{2, share_policy::guarantee, &night_shift};
  sim.add({.claim = by_day(0.5), .to = 4 * s});
  sim.add({.claim = at_night});
  sim.run(8 * s);
  BOOST_TEST(sim.got(0, s, 4 * s) > 0.9);
  BOOST_TEST(sim.got(1, s, 4 * s) > 0);
  BOOST_TEST(std::abs(sim.got(1, 5 * s, 8 * s) - 0.5) < two_points);
}

BOOST_AUTO_TEST_CASE(a_policys_row_allows_or_forbids_concurrent_sessions) {
  BOOST_TEST(!light_sessions{night_shift}.after_turns(40));
  BOOST_TEST(light_sessions{half_shift}.after_turns(40));
}

BOOST_AUTO_TEST_SUITE_END()
