// When a session's snapshot is due, and what is told where the promise fails.
#include "policies/lifecycle/recovery_time.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

/// Plays a program, its worker and its client in virtual time.
struct a_protected_session {
  /// Runs for so long, in steps of a tenth of a second. Takes each snapshot
  /// that is due.
  void run(duration how_long) {
    for (auto end = now + how_long; now < end;) {
      now += step;
      done.calls += calls_a_step;
      done.served += static_cast<duration::rep>(calls_a_step) * call_takes;
      done.device += device_a_step;
      it.note_work(done);
      longest = std::max(longest, it.estimate());
      most_calls = std::max(most_calls, it.uncovered().calls);
      if (it.due(now) <= now)
        take_snapshot();
      if (auto news = it.news(now))
        told.push_back(*news);
    }
  }
  void take_snapshot() {
    it.note_stopped(now);
    ++tried;
    if (fails)
      return it.note_failure("no room", 0ms, 10ms, now);
    ++taken;
    spent += stood + delayed;
    it.note_snapshot({bytes, stood, delayed, took}, now);
  }

  static constexpr duration step = 100ms;
  time_point now{1h};
  recovery_time it{{}, now};
  executed_work done;

  std::uint64_t calls_a_step = 10'000;
  duration call_takes = 2us;
  duration device_a_step = 50ms;
  std::uint64_t bytes = 10 << 20;
  duration stood = 5ms;
  duration delayed = 2ms;
  duration took = 15ms;
  bool fails = false;

  unsigned tried = 0, taken = 0;
  duration spent{0};
  duration longest{0};
  std::uint64_t most_calls = 0;
  std::vector<recovery_outlook> told;
};

double seconds(duration x) {
  return std::chrono::duration<double>{x}.count();
}

} // namespace

BOOST_AUTO_TEST_SUITE(recovery_times)

BOOST_FIXTURE_TEST_CASE(a_session_recovers_as_promised, a_protected_session) {
  run(10min);
  BOOST_TEST(seconds(longest) <= 2.0);
  BOOST_TEST(taken > 100u);
  BOOST_TEST(most_calls < 300'000u);
  // 2 % of ten minutes
  BOOST_TEST(seconds(spent) <= 12.0);
  BOOST_TEST(told.empty());
}

BOOST_FIXTURE_TEST_CASE(another_promise_is_kept_as_well, a_protected_session) {
  it = recovery_time{{.within = 10s}, now};
  run(10min);
  BOOST_TEST(seconds(longest) > 5.0);
  BOOST_TEST(seconds(longest) <= 10.0);
  BOOST_TEST(told.empty());
}

BOOST_FIXTURE_TEST_CASE(a_promise_may_change_on_the_way, a_protected_session) {
  it = recovery_time{{.within = 1h, .cost = 0}, now};
  run(1min);
  BOOST_TEST(taken == 0u);
  it.promise({.within = 2s, .cost = 0.02}, now);
  // No credit has grown until now.
  BOOST_CHECK(it.due(now) > now);
  run(1min);
  longest = {};
  run(10min);
  BOOST_TEST(seconds(longest) <= 2.0);
  auto so_far = taken;
  BOOST_TEST(so_far > 100u);
  it.promise({.within = 2s, .cost = 0}, now);
  run(10min);
  BOOST_TEST(taken == so_far);
}

BOOST_FIXTURE_TEST_CASE(a_program_that_does_nothing_takes_none,
                        a_protected_session) {
  run(5s);
  auto so_far = taken;
  calls_a_step = 0;
  device_a_step = 0ms;
  run(24h);
  BOOST_TEST(taken <= so_far + 1);
}

BOOST_FIXTURE_TEST_CASE(short_programs_take_none, a_protected_session) {
  run(1s);
  BOOST_TEST(tried == 0u);
}

BOOST_FIXTURE_TEST_CASE(dear_snapshots_are_rare, a_protected_session) {
  bytes = 512 << 20;
  stood = 100ms;
  delayed = 250ms;
  took = 1100ms;
  run(10min);
  auto allowed = 12.0 + seconds(stood + delayed); // and one on credit
  BOOST_TEST(seconds(spent) <= allowed);
  BOOST_TEST(taken > 10u);
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(!told[0].holds);
  BOOST_TEST(told[0].would_cost > 0.02);
  // Half as long again at a time, and not at each step.
  BOOST_TEST(told.size() < 10u);
  auto text = to_text(told.back());
  BOOST_TEST(text.starts_with("recovers in about "), text);
  BOOST_TEST(text.find(": snapshots would cost ") != text.npos, text);
  auto last = seconds(told.back().within);
  BOOST_TEST(seconds(longest) <= 1.5 * last);
}

BOOST_FIXTURE_TEST_CASE(a_busy_host_makes_snapshots_no_dearer,
                        a_protected_session) {
  took = 2s;
  run(5min);
  BOOST_TEST(seconds(longest) <= 2.0);
  BOOST_TEST(told.empty());
}

BOOST_FIXTURE_TEST_CASE(the_promise_holds_again_when_snapshots_are_cheap,
                        a_protected_session) {
  stood = 200ms;
  delayed = 200ms;
  took = 1s;
  run(5min);
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(!told.back().holds);
  delayed = 0ms;
  stood = took = 1ms;
  run(5min);
  BOOST_TEST(told.back().holds);
  longest = 0s;
  run(5min);
  BOOST_TEST(seconds(longest) <= 2.0);
  BOOST_TEST(to_text(told.back()) == "recovers in the promised time");
}

BOOST_FIXTURE_TEST_CASE(the_first_one_of_a_large_state_waits_for_credit,
                        a_protected_session) {
  bytes = std::uint64_t{40} << 30;
  took = 20s;
  it.expect_state(bytes);
  run(15s);
  BOOST_TEST(tried == 0u);
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(told[0].would_cost > 0.02);
  // The state is copied in 20 s, which costs 2 % of that.
  run(10s);
  BOOST_TEST(tried == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_failure_is_not_repeated_at_once,
                        a_protected_session) {
  fails = true;
  run(1h);
  BOOST_TEST(tried < 25u);
  BOOST_TEST(taken == 0u);
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(to_text(told.back()).find("no snapshot is taken: no room") !=
             std::string::npos);
  BOOST_TEST(told.size() < 25u);
  fails = false;
  run(10min);
  BOOST_TEST(taken > 50u);
  BOOST_TEST(told.back().holds);
}

BOOST_FIXTURE_TEST_CASE(without_a_budget_none_is_taken, a_protected_session) {
  it = recovery_time{{.cost = 0}, now};
  run(1h);
  BOOST_TEST(tried == 0u);
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(!told[0].holds);
}

BOOST_FIXTURE_TEST_CASE(what_a_call_costs_is_learned, a_protected_session) {
  BOOST_TEST(seconds(it.replays().per_call()) == 5e-6);
  call_takes = 20us;
  run(10s);
  BOOST_TEST(seconds(it.replays().per_call()) > 19e-6);
  call_takes = 1us;
  run(60s);
  BOOST_TEST(seconds(it.replays().per_call()) < 2e-6);
  // A host that stands still for a minute is no cost of its ten calls.
  done.calls += 10;
  done.served += 60s;
  it.note_work(done);
  BOOST_TEST(seconds(it.replays().per_call()) < 20e-6);
}

BOOST_FIXTURE_TEST_CASE(replays_that_take_longer_make_snapshots_earlier,
                        a_protected_session) {
  run(60s);
  auto before = most_calls;
  run(1s);
  auto lost = it.uncovered();
  it.begin_worker(true);
  BOOST_TEST(it.uncovered().calls == 0u);
  // The next worker begins to count anew, and needs four times as long.
  done = lost;
  it.note_work(done);
  BOOST_TEST(it.uncovered().calls == lost.calls);
  it.note_replay(4 * it.replays().of(lost));
  run(10s); // the first snapshot after the loss
  most_calls = 0;
  run(60s);
  BOOST_TEST(most_calls < before * 2 / 3);
}

BOOST_FIXTURE_TEST_CASE(a_move_keeps_the_account, a_protected_session) {
  run(1s);
  auto before = it.uncovered().calls;
  it.begin_worker(false);
  BOOST_TEST(it.uncovered().calls == before);
  done = {};
  run(500ms);
  BOOST_TEST(it.uncovered().calls == before + 5 * calls_a_step);
}

BOOST_FIXTURE_TEST_CASE(work_after_the_stop_is_in_no_snapshot,
                        a_protected_session) {
  run(1s);
  it.note_stopped(now);
  auto covered = it.uncovered().calls;
  run(500ms);
  auto all = it.uncovered().calls;
  it.note_snapshot({bytes, stood, delayed, took}, now);
  BOOST_TEST(it.uncovered().calls == all - covered);
}

/// The work that was done while a snapshot was completed is not the work of a
/// moment.
BOOST_FIXTURE_TEST_CASE(a_snapshot_that_is_completed_late_tells_no_nonsense,
                        a_protected_session) {
  run(10s);
  it.note_stopped(now);
  done.calls += 20 * calls_a_step;
  done.served += 20 * calls_a_step * call_takes;
  done.device += 2s;
  now += 2s;
  it.note_work(done);
  it.note_snapshot({bytes, 1s, delayed, took}, now);
  run(100ms);
  for (auto& x : told)
    BOOST_TEST(x.would_cost < 10.0);
}

/// Many snapshots for which the program waits leave the credit for the promise,
/// and cover what they have.
BOOST_FIXTURE_TEST_CASE(a_cover_is_not_paid, a_protected_session) {
  for (int i = 0; i < 1000; ++i) {
    run(100ms);
    it.note_stopped(now);
    it.note_cover(bytes);
    BOOST_REQUIRE(it.uncovered().calls == 0u);
  }
  BOOST_TEST(tried == 0u);
  run(10s);
  BOOST_TEST(taken > 1u);
  BOOST_TEST(seconds(longest) <= 2.0);
  BOOST_TEST(told.empty());
}

BOOST_FIXTURE_TEST_CASE(a_state_that_takes_longer_than_the_promise_is_told,
                        a_protected_session) {
  bytes = std::uint64_t{8} << 30; // 4 s
  run(5min);
  BOOST_TEST(taken > 10u);
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(!told.back().holds);
  BOOST_TEST(seconds(told.back().within) < 10.0);
}

BOOST_AUTO_TEST_SUITE_END()
