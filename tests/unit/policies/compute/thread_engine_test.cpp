// Threads of several sessions' devices on a host's processors, in virtual time.
#include "policies/compute/thread_engine.hpp"
#include "tests/unit/policies/compute/thread_model.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

using namespace vgpu::policy;

namespace {

// Kinds of programs, with the values of tests/e2e/load.cu.
tenant kernel() {
  return {};
}
tenant huge() {
  return {.block = 12 * ms};
}
tenant tiny() {
  return {.blocks = 1, .block = 20 * us, .gap = 20 * us};
}
tenant copy() {
  return {.blocks = 1,
          .block = 300 * us,
          .gap = 10 * us,
          .threads = 1,
          .unstoppable = never};
}
tenant with(tenant x, const share_claim& claim) {
  x.claim = claim;
  return x;
}

struct crowd {
  const char* name;
  share_policy policy;
  std::vector<tenant> all;

  bool is_of_one_kind() const {
    return policy == share_policy::equal &&
           std::all_of(all.begin(), all.end(), [&](const tenant& x) {
             return x.blocks == all[0].blocks && x.block == all[0].block;
           });
  }
};

constexpr auto settled = 500 * ms;
constexpr auto window = 2 * s;

thread_model model_of(const crowd& x, unsigned processors,
                      share_policy policy) {
  thread_model out{processors, policy};
  for (const auto& y : x.all)
    out.add(y);
  return out;
}

/// Returns the part of the device that a program uses alone.
double demand_of(tenant x, unsigned processors) {
  static std::map<std::tuple<unsigned, unsigned, share_ns>, double> known;
  auto& out = known[{processors, x.blocks, x.block}];
  if (out != 0)
    return out;
  x.claim = {};
  thread_model alone{processors, share_policy::best_effort};
  alone.add(x);
  alone.run(2 * s);
  return out = alone.got(0, settled, 2 * s);
}

/// Returns what each is promised of all device time: max-min fairness.
std::vector<double> promises_of(const crowd& x, unsigned processors,
                                double all) {
  std::vector<share_user> users;
  for (const auto& y : x.all)
    users.push_back({y.claim, demand_of(y, processors) / all});
  auto out = grants_of(x.policy, users);
  for (auto& y : out)
    y *= all;
  return out;
}

/// Returns the largest difference from a promise in any window.
double worst(const thread_model& sim, const crowd& x, unsigned processors,
             share_ns span) {
  auto out = 0.0;
  auto promised = promises_of(x, processors, sim.got_by_all(settled, span));
  for (auto i = 0u; i < sim.size(); ++i)
    for (auto at = settled; at + window <= span; at += 50 * ms)
      out = std::max(out, std::abs(sim.got(i, at, at + window) - promised[i]));
  return out;
}

/// Returns what all programs got done, in units of what each gets done alone.
double done_by_all(const thread_model& sim, const crowd& x, unsigned processors,
                   share_ns span) {
  auto out = 0.0;
  for (auto i = 0u; i < sim.size(); ++i)
    out += sim.got(i, settled, span) / demand_of(x.all[i], processors);
  return out;
}

double jain(const thread_model& sim, share_ns from, share_ns to) {
  auto sum = 0.0;
  auto squares = 0.0;
  for (auto i = 0u; i < sim.size(); ++i) {
    auto x = sim.got(i, from, to);
    sum += x;
    squares += x * x;
  }
  return sum * sum / (static_cast<double>(sim.size()) * squares);
}

const std::vector<crowd>& crowds() {
  static const std::vector<crowd> all{
      {"4 kernel",
       share_policy::equal,
       {kernel(), kernel(), kernel(), kernel()}},
      {"8 kernel", share_policy::equal, std::vector<tenant>(8, kernel())},
      {"2 huge, 2 kernel",
       share_policy::equal,
       {huge(), huge(), kernel(), kernel()}},
      {"4 tiny", share_policy::equal, std::vector<tenant>(4, tiny())},
      {"4 copy", share_policy::equal, std::vector<tenant>(4, copy())},
      {"kernel, tiny", share_policy::equal, {kernel(), tiny()}},
      {"kernel, copy", share_policy::equal, {kernel(), copy()}},
      {"kernel, huge, copy, tiny",
       share_policy::equal,
       {kernel(), huge(), copy(), tiny()}},
      {"0.5, 0.3, 0.2",
       share_policy::guarantee,
       {with(kernel(), {.share = 0.5}), with(kernel(), {.share = 0.3}),
        with(kernel(), {.share = 0.2})}},
      {"0.8, 0.2",
       share_policy::guarantee,
       {with(kernel(), {.share = 0.8}), with(kernel(), {.share = 0.2})}},
      {"huge 0.3, kernel 0.7",
       share_policy::guarantee,
       {with(huge(), {.share = 0.3}), with(kernel(), {.share = 0.7})}},
      {"kernel 0.2, copy 0.3, huge 0.5",
       share_policy::guarantee,
       {with(kernel(), {.share = 0.2}), with(copy(), {.share = 0.3}),
        with(huge(), {.share = 0.5})}},
  };
  return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(share_threads)

BOOST_AUTO_TEST_CASE(promises_are_kept_and_no_time_is_lost) {
  constexpr auto span = 3 * s + 500 * ms;
  for (auto processors : {2u, 16u})
    for (const auto& x : crowds()) {
      auto sim = model_of(x, processors, x.policy);
      sim.run(span);
      auto free = model_of(x, processors, share_policy::best_effort);
      free.run(span);
      auto off = worst(sim, x, processors, span);
      auto kept = done_by_all(sim, x, processors, span) /
                  done_by_all(free, x, processors, span);
      BOOST_TEST_MESSAGE(processors
                         << " processors, " << x.name << ": " << 100 * off
                         << " points off, " << sim.got_by_all(settled, span)
                         << " used, " << kept << " of what all get without, "
                         << sim.waits() / 5 << " waits a second");
      BOOST_TEST_CONTEXT(x.name << " on " << processors) {
        BOOST_TEST(off < two_points);
        BOOST_TEST(kept >= 0.95);
        if (x.is_of_one_kind())
          for (auto at = settled; at + window <= span; at += 100 * ms)
            BOOST_TEST(jain(sim, at, at + window) >= 0.99);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_hosts_other_load_changes_no_sessions_share) {
  thread_model sim{2, share_policy::guarantee};
  sim.noise.others = 0.3;
  sim.noise.late_part = 0.02;
  for (auto share : {0.6, 0.3, 0.1})
    sim.add({.claim = {.share = share}});
  sim.run(6 * s);
  auto all = sim.got_by_all(s, 6 * s);
  for (auto i = 0u; i < sim.size(); ++i)
    for (auto at = s; at <= 4 * s; at += 50 * ms)
      BOOST_TEST(std::abs(sim.got(i, at, at + window) -
                          sim.claim_of(i).share * all) < two_points);
}

BOOST_AUTO_TEST_CASE(sessions_of_equal_speed_are_scheduled_by_the_host) {
  thread_model sim{2, share_policy::equal};
  for (auto i = 0; i < 4; ++i)
    sim.add({});
  sim.run(2 * s);
  BOOST_TEST(sim.waits() < 20u);
}

BOOST_AUTO_TEST_CASE(limits_hold_for_each_in_any_window) {
  for (auto n : {1, 3}) {
    thread_model sim{2, share_policy::guarantee};
    for (auto i = 0; i < n; ++i)
      sim.add({.claim = {.limit = 0.25}});
    // It starts later, and has saved up nothing.
    sim.add({.claim = {.limit = 0.2}, .from = 2 * s});
    sim.run(6 * s);
    for (auto at = 0 * s; at <= 4 * s; at += 50 * ms) {
      for (auto i = 0; i < n; ++i)
        BOOST_TEST(std::abs(sim.got(static_cast<unsigned>(i), at, at + window) -
                            0.25) < two_points);
      BOOST_TEST(sim.got(sim.size() - 1, at, at + window) < 0.2 + 0.01);
    }
    BOOST_TEST(std::abs(sim.got(sim.size() - 1, 3 * s, 6 * s) - 0.2) <
               two_points);
    // It is stopped now and then, not all the time.
    BOOST_TEST(sim.waits() / 6 < 700u);
  }
}

BOOST_AUTO_TEST_CASE(work_of_all_kinds_cannot_escape_its_limit) {
  for (auto kind : {kernel(), huge(), tiny(), copy()}) {
    thread_model sim{2, share_policy::guarantee};
    kind.claim.limit = 0.1;
    sim.add(kind);
    sim.add(kernel());
    sim.run(4 * s);
    for (auto at = s; at <= 2 * s; at += 50 * ms)
      BOOST_TEST(std::abs(sim.got(0, at, at + window) - 0.1) < two_points);
    BOOST_TEST(sim.got_by_all(s, 4 * s) > 0.8);
  }
}

BOOST_AUTO_TEST_CASE(a_copy_that_cannot_be_stopped_is_charged_later) {
  thread_model sim{2, share_policy::equal};
  auto large = copy();
  large.block = 80 * ms;
  large.claim.limit = 0.2;
  sim.add(large);
  sim.add(kernel());
  sim.run(8 * s);
  BOOST_TEST(std::abs(sim.got(0, s, 8 * s) - 0.2) < two_points);
}

BOOST_AUTO_TEST_CASE(idle_time_is_given_away_within_50_ms) {
  for (auto kind : {kernel(), huge()}) {
    thread_model sim{2, share_policy::guarantee};
    sim.add(with(kernel(), {.share = 0.1}));
    kind.to = 2 * s;
    sim.add(with(kind, {.share = 0.9}));
    sim.run(3 * s);
    BOOST_TEST(std::abs(sim.got(0, s, 2 * s) - 0.1) < two_points);
    auto end = 2 * s; // the end of the other's last kernel
    while (sim.got(1, end, end + 10 * ms) > 0)
      end += 10 * ms;
    BOOST_TEST(sim.got(0, end + 10 * ms, end + 50 * ms) >
               0.95 * demand_of(kernel(), 2));
  }
}

BOOST_AUTO_TEST_CASE(an_idle_session_saves_up_little) {
  thread_model sim{2, share_policy::equal};
  sim.add({});
  sim.add({.from = 3 * s});
  sim.run(5 * s);
  BOOST_TEST(sim.got(0, s, 3 * s) > 0.9);
  BOOST_TEST(std::abs(sim.got(0, 3 * s, 3 * s + 200 * ms) - 0.5) < 0.15);
  BOOST_TEST(std::abs(sim.got(0, 3 * s, 5 * s) - 0.5) < two_points);
}

BOOST_AUTO_TEST_CASE(shares_change_while_programs_run) {
  thread_model sim{2, share_policy::guarantee};
  sim.add({.claim = {.share = 0.8}});
  sim.add({.claim = {.share = 0.2}});
  sim.run(3 * s);
  sim.set(0, {.share = 0.3});
  sim.set(1, {.share = 0.7});
  sim.run(3 * s);
  BOOST_TEST(std::abs(sim.got(0, s, 3 * s) / sim.got_by_all(s, 3 * s) - 0.8) <
             two_points);
  BOOST_TEST(std::abs(sim.got(0, 3 * s, 6 * s) / sim.got_by_all(3 * s, 6 * s) -
                      0.3) < two_points);
}

BOOST_AUTO_TEST_CASE(a_higher_priority_goes_first_but_none_starves) {
  thread_model sim{2, share_policy::priority};
  // Alone, it would fill the device.
  sim.add({.claim = {.priority = 10}, .blocks = 100, .gap = 0});
  sim.noise.wake = 0;
  sim.add({.claim = {.priority = 1}});
  sim.run(6 * s);
  BOOST_TEST(sim.got(0, s, 6 * s) > 0.9);
  for (auto at = 1 * s; at < 4 * s; at += 100 * ms) {
    BOOST_TEST(sim.got(1, at, at + 1200 * ms) > 0.002);
    BOOST_TEST(sim.got(1, at, at + 1200 * ms) < 0.1);
  }
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

/// Random calls in any order in which threads may make them.
struct shuffled {
  share_table table;
  share_ns now = 1 * s;
  std::mt19937 random;
  struct thread {
    std::int32_t seat;
    enum { rests, runs, waits } how = rests;
  };
  std::vector<thread> threads;

  explicit shuffled(unsigned seed) : random{seed} {
    table.rules.processors = 3;
    for (auto i = 0; i < 5; ++i) {
      auto seat = sit(
          table, {.share = i == 0 ? 0.5 : 1, .limit = i == 1 ? 0.1 : 1}, now);
      for (auto k = 0; k < 3; ++k)
        threads.push_back({seat});
    }
  }

  void step() {
    now += static_cast<share_ns>(random() % ms);
    auto& t = threads[random() % threads.size()];
    auto had = static_cast<share_ns>(random() % ms);
    thread_outcome out;
    if (t.how == thread::rests)
      t.how =
          begin_thread(table, t.seat, now, out) ? thread::runs : thread::waits;
    else if (t.how == thread::runs && random() % 2 == 0)
      t.how =
          go_on(table, t.seat, had, now, out) ? thread::runs : thread::waits;
    else if (t.how == thread::runs)
      end_thread(table, t.seat, had, now, out), t.how = thread::rests;
    else if (random() % 8 == 0)
      give_up(table, t.seat, now, out), t.how = thread::rests;
    else if (is_let_in(table, t.seat, now, out))
      t.how = thread::runs;
  }

  void check() {
    auto running = 0u;
    auto hungry = false;
    for (auto i = 0u; i < 5; ++i) {
      auto& x = table.seats[i];
      auto count = [&](auto how) {
        return std::count_if(threads.begin(), threads.end(), [&](auto& t) {
          return t.seat == static_cast<std::int32_t>(i) && t.how == how;
        });
      };
      BOOST_REQUIRE(x.threads.running() == count(thread::runs) + x.let_in);
      BOOST_REQUIRE(x.threads.waiting() + x.let_in == count(thread::waits));
      BOOST_REQUIRE(table.threads.busy().test(i) ==
                    (x.threads.running() + x.threads.waiting() != 0));
      running += x.threads.running();
      hungry = hungry || (x.threads.waiting() != 0 && x.spent == 0);
    }
    BOOST_REQUIRE(table.threads.running() == running);
    // No session waits while a processor is free.
    BOOST_REQUIRE((!hungry || running >= 3));
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(share_thread_accounts)

BOOST_AUTO_TEST_CASE(the_table_counts_any_sequence_of_calls_correctly) {
  for (auto seed = 0u; seed < 20; ++seed) {
    shuffled sim{seed};
    for (auto i = 0; i < 2000; ++i) {
      sim.step();
      sim.check();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_session_that_leaves_frees_its_processors) {
  share_table table;
  table.rules.processors = 1;
  auto a = sit(table, {}, 0);
  auto b = sit(table, {.share = 0.1}, 0);
  thread_outcome out;
  BOOST_TEST(begin_thread(table, a, 0, out));
  BOOST_TEST(begin_thread(table, b, 0, out)); // neither is ahead
  BOOST_TEST(!go_on(table, b, 50 * ms, 50 * ms, out));
  stand(table, a);
  let_in(table, 50 * ms, out);
  BOOST_TEST(out.let_in.test(static_cast<std::size_t>(b)));
  BOOST_TEST(is_let_in(table, b, 50 * ms, out));
  BOOST_TEST(table.threads.running() == 1u);
}

/// One thread of each of two sessions, on one processor.
struct two_on_one {
  share_table table;
  std::int32_t a = 0;
  std::int32_t b = 0;
  thread_outcome out;

  two_on_one() {
    table.rules.processors = 1;
    a = sit(table, {}, 0);
    b = sit(table, {}, 0);
    BOOST_TEST(begin_thread(table, a, 0, out));
    BOOST_TEST(begin_thread(table, b, 0, out));
  }
};

BOOST_FIXTURE_TEST_CASE(a_session_that_is_ahead_yields_until_it_is_even,
                        two_on_one) {
  BOOST_TEST(go_on(table, b, 9 * ms, 9 * ms, out));
  BOOST_TEST(!go_on(table, b, 11 * ms, 20 * ms, out));
  // It runs while the other rests, and no longer.
  end_thread(table, a, 12 * ms, 32 * ms, out);
  BOOST_TEST(is_let_in(table, b, 32 * ms, out));
  BOOST_TEST(out.hurried.none());
  BOOST_TEST(begin_thread(table, a, 32 * ms, out));
  BOOST_TEST(out.hurried.test(static_cast<std::size_t>(b)));
  BOOST_TEST(!go_on(table, b, 0, 32 * ms, out));
  out = {};
  BOOST_TEST(go_on(table, a, 7 * ms, 39 * ms, out));
  BOOST_TEST(out.let_in.none());
  BOOST_TEST(go_on(table, a, 1 * ms, 40 * ms, out));
  BOOST_TEST(out.let_in.test(static_cast<std::size_t>(b)));
}

BOOST_AUTO_TEST_CASE(all_threads_that_may_run_are_woken_at_once) {
  share_table table;
  table.rules.processors = 4;
  auto a = sit(table, {}, 0);
  auto b = sit(table, {}, 0);
  thread_outcome out;
  for (auto seat : {a, b})
    for (auto i = 0; i < 4; ++i)
      BOOST_TEST(begin_thread(table, seat, 0, out));
  for (auto i = 0; i < 4; ++i)
    BOOST_TEST(!go_on(table, b, 60 * ms, 60 * ms, out));
  BOOST_TEST(go_on(table, a, 240 * ms, 240 * ms, out));
  BOOST_TEST(out.woken[static_cast<std::size_t>(b)] == 4u);
}

BOOST_AUTO_TEST_CASE(a_limited_session_looks_again_when_its_credit_is_back) {
  share_table table;
  table.rules.processors = 1;
  auto a = sit(table, {.limit = 0.5}, 0);
  thread_outcome out;
  BOOST_TEST(begin_thread(table, a, 0, out));
  BOOST_TEST(look_again(table, a, 0) == 50 * ms);
  BOOST_TEST(!go_on(table, a, 40 * ms, 40 * ms, out));
  auto when = look_again(table, a, 40 * ms);
  BOOST_TEST(when > 40 * ms);
  BOOST_TEST(!is_let_in(table, a, when - ms, out));
  BOOST_TEST(is_let_in(table, a, when, out));
}

BOOST_FIXTURE_TEST_CASE(stopped_threads_do_not_block_others_for_ever,
                        two_on_one) {
  BOOST_TEST(!go_on(table, b, 50 * ms, 50 * ms, out));
  BOOST_TEST(!is_let_in(table, b, 1 * s, out));
  BOOST_TEST(is_let_in(table, b, table.rules.stalled_after, out));
  BOOST_TEST(go_on(table, b, ms, table.rules.stalled_after + ms, out));
}

BOOST_AUTO_TEST_SUITE_END()
