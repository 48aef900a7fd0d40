// Turns on a simulated device, in virtual time.
#include "policies/compute/share.hpp"
#include "policies/compute/share_grants.hpp"
#include "tests/unit/policies/compute/turn_model.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace vgpu::policy;

namespace {

share_rules rules(share_policy policy) {
  share_rules out;
  out.policy = policy;
  out.joins = 0;
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(equal_share)

BOOST_AUTO_TEST_CASE(four_or_eight_programs_get_equal_parts) {
  for (auto n : {4, 8}) {
    turn_model sim{rules(share_policy::equal)};
    for (auto i = 0; i < n; ++i)
      sim.add({.kernel = (i + 1) * 700 * us});
    sim.run(20 * s);
    for (auto at = 2 * s; at < 18 * s; at += 100 * ms)
      BOOST_TEST(sim.jain(at, at + 2 * s) >= 0.99);
    for (auto i = 0u; i < sim.programs.size(); ++i)
      BOOST_TEST(sim.worst(i, 1.0 / n) < two_points);
    BOOST_TEST(sim.busy(2 * s, 20 * s) >= 0.95);
  }
}

BOOST_AUTO_TEST_CASE(requested_shares_do_not_count) {
  turn_model sim{rules(share_policy::equal)};
  sim.add({.claim = {.share = 0.1}});
  sim.add({.claim = {.share = 0.9}});
  sim.run(10 * s);
  BOOST_TEST(sim.worst(0, 0.5) < two_points);
}

BOOST_AUTO_TEST_CASE(a_late_program_gets_its_part_at_once_and_no_more) {
  turn_model sim{rules(share_policy::equal)};
  sim.add({});
  sim.add({.from = 5 * s});
  sim.run(10 * s);
  auto joined = 6 * s; // the simulation begins at 1 s
  BOOST_TEST(std::abs(sim.used(1, joined, joined + s) / s - 0.5) < 0.03);
}

BOOST_AUTO_TEST_CASE(kernels_longer_than_a_turn_are_paid_for_later) {
  turn_model sim{rules(share_policy::equal)};
  sim.add({.kernel = 90 * ms});
  sim.add({.kernel = 1 * ms});
  sim.run(30 * s);
  BOOST_TEST(std::abs(sim.used(0, 2 * s, 30 * s) / (28 * s) - 0.5) <
             two_points);
}

BOOST_AUTO_TEST_CASE(programs_that_pause_do_not_leave_the_device_idle) {
  turn_model sim{rules(share_policy::equal)};
  // Alone, each would use half of the device.
  for (auto i = 0; i < 4; ++i)
    sim.add({.kernel = 5 * ms, .gap = 5 * ms});
  sim.run(10 * s);
  BOOST_TEST(sim.busy(2 * s, 10 * s) >= 0.8);
  BOOST_TEST(sim.jain(2 * s, 10 * s) >= 0.99);
}

BOOST_AUTO_TEST_CASE(pauses_in_a_turn_count_while_others_wait) {
  turn_model sim{rules(share_policy::equal)};
  // Its gaps are too short to lose the turn. Alone, it uses a fifth of the
  // device.
  sim.add({.kernel = 100 * us, .gap = 400 * us});
  sim.add({.kernel = 1 * ms});
  sim.run(10 * s);
  BOOST_TEST(sim.busy(2 * s, 10 * s) >= 0.55); // 0.33 if they did not count
  BOOST_TEST(sim.used(0, 2 * s, 10 * s) / (8 * s) >= 0.09);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(fixed_share)

BOOST_AUTO_TEST_CASE(a_fixed_share_is_not_exceeded_on_an_idle_device) {
  turn_model sim{rules(share_policy::fixed)};
  sim.add({.claim = {.share = 0.25}});
  sim.run(10 * s);
  BOOST_TEST(sim.worst(0, 0.25) < two_points);
}

BOOST_AUTO_TEST_CASE(all_sessions_get_their_fixed_shares) {
  turn_model sim{rules(share_policy::fixed)};
  for (auto share : {0.1, 0.2, 0.4})
    sim.add({.claim = {.share = share}});
  sim.run(20 * s);
  BOOST_TEST(sim.worst(0, 0.1) < two_points);
  BOOST_TEST(sim.worst(1, 0.2) < two_points);
  BOOST_TEST(sim.worst(2, 0.4) < two_points);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(guarantees_and_limits)

BOOST_AUTO_TEST_CASE(guarantees_are_met_and_the_rest_is_given_away) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.5}});
  sim.add({.claim = {.share = 0.25}});
  sim.add({}); // it has no guarantee
  sim.run(20 * s);
  BOOST_TEST(sim.worst(0, 0.5) < two_points);
  BOOST_TEST(sim.worst(1, 0.25) < two_points);
  BOOST_TEST(sim.worst(2, 0.25) < two_points);
  BOOST_TEST(sim.busy(2 * s, 20 * s) >= 0.95);
}

BOOST_AUTO_TEST_CASE(idle_time_goes_to_sessions_with_work) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.9}, .to = 5 * s});
  sim.add({.claim = {.share = 0.1}});
  sim.run(10 * s);
  BOOST_TEST(std::abs(sim.used(1, 2 * s, 5 * s) / (3 * s) - 0.1) < two_points);
  // The first one ends at 6 s.
  BOOST_TEST(sim.used(1, 6 * s + 50 * ms, 10 * s) / (4 * s) > 0.95);
}

BOOST_AUTO_TEST_CASE(a_limit_is_never_exceeded) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.2, .limit = 0.3}});
  sim.run(20 * s);
  BOOST_TEST(sim.worst(0, 0.3) < two_points);
}

BOOST_AUTO_TEST_CASE(an_idle_session_saves_up_at_most_two_turns) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.limit = 0.25}, .from = 5 * s});
  sim.run(8 * s);
  auto began = 6 * s; // the simulation begins at 1 s
  BOOST_TEST(sim.used(0, began, began + 2 * s) / (2 * s) < 0.25 + 0.022);
}

BOOST_AUTO_TEST_CASE(time_above_a_limit_goes_to_others) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.6, .limit = 0.6}});
  sim.add({.claim = {.share = 0.2}});
  sim.add({.claim = {.share = 0.2, .limit = 0.2}});
  sim.run(20 * s);
  BOOST_TEST(sim.worst(0, 0.6) < two_points);
  BOOST_TEST(sim.worst(1, 0.2) < two_points);
  BOOST_TEST(sim.worst(2, 0.2) < two_points);
  BOOST_TEST(sim.busy(2 * s, 20 * s) >= 0.95);
}

BOOST_AUTO_TEST_CASE(guarantees_beyond_the_whole_are_scaled_down) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.8}});
  sim.add({.claim = {.share = 0.8}});
  sim.add({.claim = {.share = 0.4}});
  sim.run(20 * s);
  BOOST_TEST(sim.worst(0, 0.4) < two_points);
  BOOST_TEST(sim.worst(2, 0.2) < two_points);
}

BOOST_AUTO_TEST_CASE(a_session_without_a_guarantee_still_advances) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.5}});
  sim.add({.claim = {.share = 0.5}});
  sim.add({});
  sim.run(20 * s);
  BOOST_TEST(sim.used(2, 2 * s, 20 * s) / (18 * s) > 0.03);
}

BOOST_AUTO_TEST_CASE(shares_change_while_programs_run) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.claim = {.share = 0.8}});
  sim.add({.claim = {.share = 0.2}});
  sim.run(5 * s);
  set_claim(sim.table, sim.programs[0].seat, {.share = 0.3}, sim.now);
  set_claim(sim.table, sim.programs[1].seat, {.share = 0.7}, sim.now);
  sim.run(5 * s);
  BOOST_TEST(std::abs(sim.used(0, 2 * s, 6 * s) / (4 * s) - 0.8) < two_points);
  BOOST_TEST(std::abs(sim.used(0, 7 * s, 11 * s) / (4 * s) - 0.3) < two_points);
  set_rules(sim.table, rules(share_policy::equal), sim.now);
  sim.run(5 * s);
  BOOST_TEST(std::abs(sim.used(0, 12 * s, 16 * s) / (4 * s) - 0.5) <
             two_points);
}

BOOST_AUTO_TEST_CASE(waiting_times_follow_the_quantum) {
  auto waits = [](share_ns quantum) {
    auto what = rules(share_policy::guarantee);
    what.quantum = quantum;
    turn_model sim{what};
    sim.add({.claim = {.share = 0.5}});
    sim.add({.claim = {.share = 0.5}});
    sim.run(10 * s);
    BOOST_TEST(sim.worst(0, 0.5) < 0.03);
    return sim.programs[1].waited;
  };
  BOOST_TEST(waits(5 * ms) < 8 * ms);
  BOOST_TEST(waits(40 * ms) > 30 * ms);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(priorities)

BOOST_AUTO_TEST_CASE(a_higher_priority_goes_first_but_none_starves) {
  turn_model sim{rules(share_policy::priority)};
  sim.add({.claim = {.priority = 10}});
  sim.add({.claim = {.priority = 1}});
  sim.run(20 * s);
  BOOST_TEST(sim.used(0, 2 * s, 20 * s) / (18 * s) > 0.95);
  BOOST_TEST(sim.used(1, 2 * s, 20 * s) > 0);
  BOOST_TEST(sim.programs[1].waited < 1 * s + 50 * ms);
}

BOOST_AUTO_TEST_CASE(a_high_priority_waits_little_and_a_low_one_gets_turns) {
  turn_model sim{rules(share_policy::priority)};
  sim.add({.claim = {.priority = 10}, .kernel = 1 * ms, .gap = 30 * ms});
  sim.add({.claim = {.priority = 1}, .kernel = 1 * ms});
  sim.run(10 * s);
  BOOST_TEST(sim.programs[0].waited < 5 * ms);
  BOOST_TEST(sim.busy(2 * s, 10 * s) > 0.95);
  // From now on it uses all time.
  sim.programs[0].gap = 0;
  auto began = sim.now;
  sim.run(10 * s);
  // The other gets one turn after each second of waiting.
  auto turns = sim.used(1, began, sim.now) / 20e6;
  BOOST_TEST(turns > 8.5);
  BOOST_TEST(turns < 10.5);
}

BOOST_AUTO_TEST_CASE(sessions_of_one_priority_share_equally) {
  turn_model sim{rules(share_policy::priority)};
  sim.add({.claim = {.priority = 3}});
  sim.add({.claim = {.priority = 3}});
  sim.run(10 * s);
  BOOST_TEST(sim.worst(0, 0.5) < two_points);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_long_run)

BOOST_AUTO_TEST_CASE(grants_equal_the_result_of_turns) {
  const std::vector<std::vector<share_claim>> crowds{
      {{.share = 0.25}, {.share = 1}, {.share = 0.5}},
      {{.share = 0.5, .limit = 0.3}, {.share = 0.2}, {.share = 1}},
      {{.share = 0.9}, {.share = 0.8}, {.share = 1}},
      {{.share = 0.2}, {.share = 0.3}},
      {{}, {.limit = 0.1}, {}}};
  for (auto policy :
       {share_policy::equal, share_policy::fixed, share_policy::guarantee})
    for (const auto& claims : crowds) {
      turn_model sim{rules(policy)};
      std::vector<share_user> users;
      for (const auto& x : claims) {
        sim.add({.claim = x});
        users.push_back({x, 1});
      }
      sim.run(20 * s);
      auto granted = grants_of(policy, users);
      for (auto i = 0u; i < claims.size(); ++i)
        BOOST_TEST(std::abs(sim.used(i, 2 * s, 20 * s) / (18 * s) -
                            granted[i]) < two_points);
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(trouble)

BOOST_AUTO_TEST_CASE(a_session_that_leaves_frees_its_turn) {
  share_table table;
  auto a = sit(table, {}, 0);
  auto b = sit(table, {}, 0);
  want(table, a, 0);
  BOOST_TEST(arbitrate(table, 0).granted == a);
  begin_work(table, a, 0);
  want(table, b, 1);
  BOOST_TEST(arbitrate(table, 1).granted == share_table::nobody);
  stand(table, a);
  BOOST_TEST(arbitrate(table, 2).granted == b);
}

BOOST_AUTO_TEST_CASE(a_turn_that_is_not_used_is_taken_back) {
  share_table table;
  auto a = sit(table, {}, 0);
  auto b = sit(table, {}, 0);
  want(table, a, ms);
  BOOST_TEST(arbitrate(table, ms).granted == a);
  want(table, b, ms);
  auto waiting = arbitrate(table, ms);
  BOOST_TEST(waiting.granted == share_table::nobody);
  BOOST_TEST(waiting.look_again <= ms + table.rules.unused_after);
  auto late = ms + table.rules.unused_after;
  // On a busy host a session may be late to use its turn.
  BOOST_TEST(arbitrate(table, late - 1).granted == share_table::nobody);
  BOOST_TEST(arbitrate(table, late).granted == b);
  // The first gets no turn again before it wants one.
  begin_work(table, b, late);
  end_work(table, b, late + 10 * ms);
  BOOST_TEST(arbitrate(table, late + 20 * ms).granted == share_table::nobody);
}

BOOST_AUTO_TEST_CASE(a_turn_begins_when_concurrent_work_is_done) {
  share_table table;
  auto a = sit(table, {}, 0);
  auto b = sit(table, {}, 0);
  concurrent_engine{table}.begin(0);
  begin_work(table, a, ms);
  begin_work(table, b, ms);
  part(table); // unknown work has arrived
  BOOST_TEST(!is_concurrent(table));
  end_work(table, a, 2 * ms);
  want(table, a, 2 * ms);
  auto waits = arbitrate(table, 2 * ms);
  BOOST_TEST(waits.granted == share_table::nobody);
  // It is charged the predicted time of its work, not the time for which it
  // held a up.
  BOOST_TEST(charge(table, b, {ms, ms}, {5 * ms, 5 * ms}, 6 * ms) == ms);
  end_work(table, b, 6 * ms);
  BOOST_TEST(arbitrate(table, 6 * ms).granted == a);
  BOOST_TEST(charge(table, a, {ms, ms}, {5 * ms, 5 * ms}, 11 * ms) == 5 * ms);
}

BOOST_AUTO_TEST_CASE(a_turn_does_not_wait_for_work_that_never_ends) {
  share_table table;
  auto a = sit(table, {}, 0);
  auto b = sit(table, {}, 0);
  concurrent_engine{table}.begin(0);
  begin_work(table, b, ms);
  part(table);
  want(table, a, 2 * ms);
  BOOST_TEST(arbitrate(table, 2 * ms).granted == share_table::nobody);
  auto stalled = ms + table.rules.stalled_after;
  BOOST_TEST(arbitrate(table, stalled).granted == a);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_never_ends_does_not_block_others) {
  turn_model sim{rules(share_policy::guarantee)};
  sim.add({.hangs_at = 2 * s});
  sim.add({});
  sim.run(10 * s);
  BOOST_TEST(sim.programs[1].waited <= sim.table.rules.stalled_after + 50 * ms);
  BOOST_TEST(sim.used(1, 7 * s, 11 * s) / (4 * s) > 0.95);
}

BOOST_AUTO_TEST_CASE(the_number_of_seats_is_bounded) {
  share_table table;
  for (auto i = 0u; i < most_seats; ++i)
    BOOST_TEST(sit(table, {}, 0) != share_table::nobody);
  BOOST_TEST(sit(table, {}, 0) == share_table::nobody);
  stand(table, 17);
  BOOST_TEST(sit(table, {}, 0) == 17);
}

BOOST_AUTO_TEST_CASE(turns_are_needed_with_a_limit_or_another_session) {
  share_table table;
  BOOST_TEST(!contested(table));
  auto a = sit(table, {}, 0);
  BOOST_TEST(!contested(table));
  set_claim(table, a, {.limit = 0.5}, 0);
  BOOST_TEST(contested(table));
  set_claim(table, a, {}, 0);
  auto b = sit(table, {}, 0);
  BOOST_TEST(contested(table));
  set_rules(table, rules(share_policy::best_effort), 0);
  BOOST_TEST(!contested(table));
  set_rules(table, rules(share_policy::fixed), 0);
  stand(table, b);
  BOOST_TEST(!contested(table));
  set_claim(table, a, {.share = 0.5}, 0);
  BOOST_TEST(contested(table));
}

BOOST_AUTO_TEST_SUITE_END()
