// Small clusters whose outcome can be calculated, and properties of any
// cluster.
#include "policies/simulator/report.hpp"
#include "policies/simulator/simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>

using namespace vgpu;
using namespace vgpu::simulator;

namespace {

constexpr auto one_gib = std::uint64_t{1} << 30;

arrival comes(double at, double runs, std::uint64_t memory = 0) {
  arrival out;
  out.at = at;
  out.runs = runs;
  out.constraints.memory = memory;
  return out;
}

simulation_options on(std::size_t nodes, std::uint32_t gpus) {
  simulation_options out;
  out.cluster = {nodes, gpus, 8 * one_gib};
  out.copy_rate = static_cast<double>(one_gib);
  return out;
}

bool near(double a, double b) {
  return std::abs(a - b) < 1e-3 * std::max(1.0, b);
}

/// Returns the number of open tags at the end of an XML text, or -1 if a tag is
/// closed that was not open.
int open_tags(const std::string& text) {
  auto open = 0;
  for (std::size_t i = 0; (i = text.find('<', i)) != std::string::npos; ++i) {
    auto end = text.find('>', i);
    if (end == std::string::npos)
      return -1;
    if (text[i + 1] == '/' && --open < 0)
      return -1;
    open += text[i + 1] != '/' && text[end - 1] != '/' ? 1 : 0;
  }
  return open;
}

} // namespace

BOOST_AUTO_TEST_SUITE(simulations)

BOOST_AUTO_TEST_CASE(two_programs_on_one_gpu_take_twice_as_long) {
  auto got = simulate({comes(0, 100), comes(0, 100)}, on(1, 1));
  BOOST_TEST(got.finished == 2u);
  BOOST_TEST(near(got.ended, 200));
  BOOST_TEST(near(got.slowdown.mean, 2));
  BOOST_TEST(near(got.fairness, 1));
  BOOST_TEST(near(got.while_coming.busy, 1));
  BOOST_TEST(got.waiting.most == 0);
  // A program that does not fill the GPU leaves the rest to others.
  auto light = comes(0, 100);
  light.load = 0.25;
  got = simulate({light, comes(0, 75)}, on(1, 1));
  BOOST_TEST(near(got.ended, 100));
  BOOST_TEST(near(got.slowdown.most, 100.0 / 75));
}

BOOST_AUTO_TEST_CASE(shares_follow_the_policy) {
  auto small = comes(0, 100);
  small.constraints.share = 0.25;
  auto large = comes(0, 300);
  large.constraints.share = 0.75;
  auto options = on(1, 1);
  options.sharing = policy::share_policy::guarantee;
  auto got = simulate({small, large}, options);
  BOOST_TEST(near(got.ended, 400));
  BOOST_TEST(near(got.slowdown.most, 4));
  // A fixed share also holds for a program alone.
  options.sharing = policy::share_policy::fixed;
  got = simulate({small}, options);
  BOOST_TEST(near(got.ended, 400));
}

BOOST_AUTO_TEST_CASE(memory_is_waited_for_in_order_of_priority) {
  auto late = comes(2, 10, 8 * one_gib);
  late.constraints.priority = 10;
  auto got = simulate(
      {comes(0, 100, 8 * one_gib), comes(1, 10, 8 * one_gib), late}, on(1, 1));
  BOOST_TEST(got.finished == 3u);
  BOOST_TEST(near(got.ended, 120));
  // They wait 0 s, 109 s (behind the later one of higher priority) and 98 s.
  BOOST_TEST(near(got.waiting.most, 109));
  BOOST_TEST(near(got.waiting.mean, (109 + 98) / 3.0));
}

BOOST_AUTO_TEST_CASE(a_smaller_program_goes_ahead_if_it_delays_no_other) {
  // One of two GPUs is reserved for the large program, which is first in the
  // queue.
  auto got = simulate({comes(0, 100, 5 * one_gib), comes(0, 50, 5 * one_gib),
                       comes(1, 10, 8 * one_gib), comes(2, 10, 3 * one_gib),
                       comes(3, 10, 3 * one_gib)},
                      on(1, 2));
  BOOST_TEST(got.finished == 5u);
  // The small ones run on the other GPU one after another, until 22 s and 42 s,
  // and slow down the program there. That one runs its last 28 s alone.
  BOOST_TEST(near(got.waiting.most, 69));
  BOOST_TEST(near(got.waiting.mean, (69 + 19) / 5.0));
}

BOOST_AUTO_TEST_CASE(a_program_that_can_never_be_served_is_refused) {
  auto got = simulate({comes(0, 1, 9 * one_gib), comes(0, 1)}, on(1, 1));
  BOOST_TEST(got.refused == 1u);
  BOOST_TEST(got.finished == 1u);
  auto nowhere = comes(0, 1);
  nowhere.constraints.node = "nowhere";
  got = simulate({nowhere}, on(1, 1));
  BOOST_TEST(got.never == 1u);
}

BOOST_AUTO_TEST_CASE(a_program_stops_waiting_after_its_time) {
  auto hasty = comes(1, 10, 8 * one_gib);
  hasty.constraints.wait_ms = 5'000;
  auto got = simulate({comes(0, 100, 8 * one_gib), hasty}, on(1, 1));
  BOOST_TEST(got.gave_up == 1u);
  BOOST_TEST(near(got.waiting.most, 5));
  BOOST_TEST(near(got.ended, 100));
}

BOOST_AUTO_TEST_CASE(an_idle_program_is_suspended_and_resumed) {
  auto idle = comes(0, 20, 8 * one_gib);
  idle.constraints.idle_after_ms = 10'000;
  idle.idle = {{10, 100}};
  auto got = simulate({idle, comes(1, 30, 8 * one_gib)}, on(1, 1));
  BOOST_TEST(got.reclaimed == 1u);
  BOOST_TEST(got.finished == 2u);
  // It is idle from 10 s and suspended from 20 s to 28 s. The other program
  // runs from 28 s to 58 s. The first one calls at 110 s, is resumed at 118 s,
  // and ends 10 s later.
  BOOST_TEST(near(got.waiting.most, 27));
  BOOST_TEST(near(got.ended, 128));
  idle.constraints.idle_after_ms = control::keep_when_idle;
  got = simulate({idle, comes(1, 30, 8 * one_gib)}, on(1, 1));
  BOOST_TEST(got.reclaimed == 0u);
  BOOST_TEST(near(got.waiting.most, 119));
}

BOOST_AUTO_TEST_CASE(nodes_suspend_idle_programs_independently) {
  std::vector<arrival> all;
  for (auto node = 0; node < 2; ++node)
    for (auto i = 0; i < 8; ++i) {
      all.push_back(comes(0, 20, 8 * one_gib));
      all.back().constraints.node = "node" + std::to_string(node);
      all.back().constraints.idle_after_ms = 10'000;
      all.back().idle = {{10, 100}};
    }
  all.resize(2 * all.size(), comes(1, 30, 8 * one_gib));
  // A suspension takes 8 s, and each node suspends four at a time from 20 s on.
  auto got = simulate(all, on(2, 8));
  BOOST_TEST(got.reclaimed == 16u);
  BOOST_TEST(near(got.waiting.most, 20 + 2 * 8 - 1));
}

BOOST_AUTO_TEST_CASE(a_program_migrates_off_a_busy_gpu) {
  // Both begin on their host's only GPU, and node1 is idle. Bin-pack does not
  // spread them, so the balance migrates one.
  auto there = comes(0, 100, one_gib);
  there.constraints.share = 0.5;
  auto options = on(2, 1);
  options.placement = policy::placement_strategy::bin_pack;
  auto got = simulate({there, there}, options);
  BOOST_TEST(got.migrations == 1u);
  BOOST_TEST(got.ended < 120);
  options.balance_every.reset();
  got = simulate({there, there}, options);
  BOOST_TEST(got.migrations == 0u);
  BOOST_TEST(near(got.ended, 200));
}

BOOST_AUTO_TEST_CASE(turns_with_memory_let_all_begin_at_once) {
  std::vector<arrival> eight(8, comes(0, 600, 2560ULL << 20));
  for (auto& x : eight)
    x.load = 1.0 / 3; // three, as fit, do not slow each other down
  auto options = on(1, 1);
  auto without = simulate(eight, options);
  BOOST_TEST(without.preempted == 0u);
  BOOST_TEST(near(without.ended, 1800));
  BOOST_TEST(near(without.first_waiting.most, 1200));
  options.swapping.promised = 3;
  auto with = simulate(eight, options);
  BOOST_TEST(with.finished == 8u);
  BOOST_TEST(with.preempted > 10u);
  // Suspending and resuming take 5 s, so a turn lasts at least 45 s.
  BOOST_TEST(with.first_waiting.most < 150);
  BOOST_TEST(with.swapping > 0.02);
  BOOST_TEST(with.swapping <= 0.1 + 0.01);
  BOOST_TEST(with.fairness > without.fairness + 0.1);
  BOOST_TEST(near(with.first_waiting.most,
                  simulate(eight, options).first_waiting.most));
  // A smaller allowed part for swapping means fewer swaps.
  options.swapping.swapped_part = 0.02;
  auto rarely = simulate(eight, options);
  BOOST_TEST(rarely.finished == 8u);
  BOOST_TEST(rarely.preempted < with.preempted);
  BOOST_TEST(rarely.swapping <= 0.02 + 0.005);
}

BOOST_AUTO_TEST_CASE(memory_turns_follow_the_policy) {
  // The first program's swap is estimated as 16 GiB at 1 GB/s, so its turn
  // lasts nine times that. Its suspension takes 8 s.
  auto options = on(1, 1);
  options.swapping.promised = 2;
  auto two =
      std::vector{comes(0, 1000, 8 * one_gib), comes(0, 10, 8 * one_gib)};
  auto got = simulate(two, options);
  auto turn = 9 * 2 * 8 * static_cast<double>(one_gib) / 1e9;
  BOOST_TEST(got.preempted == 1u);
  BOOST_TEST(near(got.first_waiting.most, turn + 8));
  // 10 s later it is resumed, which takes 8 s.
  BOOST_TEST(near(got.ended, 1000 + 8 + 10 + 8));
  BOOST_TEST(near(got.swapping, 16 / 1026.0));
  // No program yields to a lower priority, and memory that may not be promised
  // is waited for.
  two[0].constraints.priority = 1;
  BOOST_TEST(simulate(two, options).preempted == 0u);
  two[0].constraints.priority = 0;
  options.swapping.promised = 1.5;
  got = simulate(two, options);
  BOOST_TEST(got.preempted == 0u);
  BOOST_TEST(near(got.first_waiting.most, 1000));
}

BOOST_AUTO_TEST_CASE(many_programs_that_take_turns_finish_all_work) {
  workload_options made;
  made.vgpus = 1'500;
  made.idle = 0.3;
  auto options = on(3, 4);
  made.rate = 0.06;
  auto trace = generate(made, options.cluster);
  for (std::size_t i = 0; i < trace.size(); i += 7)
    trace[i].constraints.priority = static_cast<std::int32_t>(i % 3);
  for (auto promised : {1.2, 3.0, 16.0}) {
    options.swapping.promised = promised;
    auto got = simulate(trace, options);
    BOOST_TEST(got.finished == trace.size());
    BOOST_TEST(got.preempted > 0u);
    BOOST_TEST(got.swapping > 0.0);
    BOOST_TEST(got.swapping < 0.15);
    BOOST_TEST(got.while_coming.promised <= 1.0 + 1e-9);
    BOOST_TEST(simulate(trace, options).preempted == got.preempted);
  }
}

BOOST_AUTO_TEST_CASE(all_work_is_done_exactly_once) {
  workload_options made;
  made.vgpus = 1'500;
  auto options = on(3, 4);
  made.rate = 0.06;
  auto trace = generate(made, options.cluster);
  auto work = 0.0;
  for (const auto& x : trace)
    work += x.runs * x.load;
  using strategy = policy::placement_strategy;
  for (auto how :
       {strategy::least_loaded, strategy::bin_pack, strategy::spread}) {
    options.placement = how;
    auto got = simulate(trace, options);
    BOOST_TEST(got.finished == trace.size());
    BOOST_TEST(got.refused + got.gave_up + got.never == 0u);
    BOOST_TEST(got.waiting.most > 0.0);
    BOOST_TEST(near(got.over_time.mean().busy * got.ended, work));
    BOOST_TEST(got.over_time.mean().busy <= 12.0);
    BOOST_TEST(got.fairness > 0.5);
    BOOST_TEST(got.fairness <= 1.0 + 1e-9);
    BOOST_TEST(got.decisions >= trace.size());
    auto again = simulate(trace, options);
    BOOST_TEST(again.ended == got.ended);
    BOOST_TEST(again.decisions == got.decisions);
    BOOST_TEST(again.migrations == got.migrations);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(statistics)

BOOST_AUTO_TEST_CASE(percentiles_are_actual_values) {
  std::vector<double> all;
  for (auto i = 1; i <= 100; ++i)
    all.push_back(i);
  auto got = distribution_of(all);
  BOOST_TEST(got.mean == 50.5);
  BOOST_TEST(got.p95 == 95);
  BOOST_TEST(got.p99 == 99);
  BOOST_TEST(got.most == 100);
  BOOST_TEST(distribution_of({7}).p99 == 7);
  BOOST_TEST(distribution_of({}).most == 0);
  BOOST_TEST(jain_index({1, 1, 1, 1}) == 1);
  BOOST_TEST(jain_index({1, 0, 0, 0}) == 0.25);
  BOOST_TEST(jain_index({}) == 1);
}

BOOST_AUTO_TEST_CASE(a_timeline_of_any_length_has_a_mean) {
  timeline x;
  x.add(0, 10, {1, 0, 4});
  x.add(10, 1e6, {0.5, 0, 0});
  BOOST_TEST(near(x.mean().queue, 4e-5));
  BOOST_TEST(near(x.mean().busy, (10 + 0.5 * (1e6 - 10)) / 1e6));
  auto means = x.means();
  BOOST_TEST(means.size() <= timeline::most_spans);
  BOOST_TEST(means.size() > timeline::most_spans / 4);
  BOOST_TEST(near(means.back().busy, 0.5));
}

BOOST_AUTO_TEST_CASE(an_svg_is_well_formed_for_any_names) {
  auto one = simulate({comes(0, 100), comes(5, 100)}, on(1, 1));
  std::vector<result_of_policy> rows{{"a<b>&\"c\"\x01", one}, {"spread", one}};
  auto svg = svg_of({{1, 1, one_gib}, 2}, rows);
  BOOST_TEST(open_tags(svg) == 0);
  BOOST_TEST(svg.find("a<b") == std::string::npos);
  BOOST_TEST(svg.find("a&#60;b&#62;&#38;&#34;c&#34;?") != std::string::npos);
  BOOST_TEST(svg.find("nan") == std::string::npos);
  BOOST_TEST(svg.find("inf") == std::string::npos);
  // This has no programs and no events.
  BOOST_TEST(open_tags(svg_of({{1, 1, one_gib}, 0}, {{{"x", outcome{}}}})) ==
             0);
  BOOST_TEST(table_of({{1, 1, one_gib}, 2}, rows).find("spread") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
