// Gates of several sessions in virtual time, on a simulated GPU that serves its
// sessions in slices as real ones do. They measure what concurrent sessions
// gain where none of them fills the GPU alone.
#include "actors/compute/share_gate.hpp"
#include "devices/interface/timing_unit.hpp"
#include "policies/compute/share.hpp"

#include "tests/unit/actors/plain_device.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>

using namespace vgpu;
using policy::share_claim;
using policy::share_ns;

namespace together_test {

constexpr share_ns us = 1'000;
constexpr share_ns ms = 1'000'000;
constexpr share_ns s = 1'000'000'000;
constexpr share_ns step = 20 * us;

/// A session's queue in the device, which measures how long it worked. It
/// reports ends only at multiples of `looks_every`.
class queue final : public test::plain_device,
                    public vgpu::device::timing_unit {
public:
  explicit queue(share_ns looks_every) : looks_every_(looks_every) {}

  void time(vgpu::device::timed_for) noexcept override {}
  void delay() noexcept override { delays_ = true; }
  void settle_times() override { settled_ = worked_; }
  std::chrono::nanoseconds
  timed(vgpu::device::timed_for) const noexcept override {
    return std::chrono::nanoseconds{settled_};
  }
  /// Enqueues work of this length. With `copies` an engine that kernels do not
  /// use does it.
  void add(share_ns length, bool copies) {
    if (std::exchange(delays_, false))
      left_.push_back({1 * ms, copies, true});
    left_.push_back({length, copies});
    ++brought_;
  }
  void when_done(std::optional<stream_id>,
                 vgpu::device::completion done) override {
    waiting_.emplace_back(brought_, std::move(done));
    if (ended == brought_)
      end_span();
  }
  void look(share_ns now) {
    now_ = now;
    if (now % looks_every_ == 0)
      tell();
  }
  /// Returns whether the queue's next work is for the engine of copies or for
  /// that of kernels.
  bool is_for(bool copies) const {
    return !left_.empty() && left_.front().copies == copies;
  }
  std::size_t size() const { return left_.size(); }
  /// Works for at most `span` on one engine. Returns how much of the span is
  /// left.
  share_ns work(bool copies, share_ns from, share_ns span) {
    for (now_ = from; span > 0 && is_for(copies);) {
      auto delays = left_.front().delays;
      if (!began_ && !delays)
        began_ = now_;
      auto part = std::min(span, left_.front().length);
      left_.front().length -= part;
      span -= part;
      now_ += part;
      if (left_.front().length != 0)
        break;
      if (delays) {
        left_.pop_front();
        watched_ = true;
        continue;
      }
      left_.pop_front();
      ++ended;
      if (std::ranges::find(waiting_, ended, &asked::first) != waiting_.end())
        end_span();
    }
    return span;
  }

  std::uint64_t ended = 0;
  /// How often the next measurement of watched work is a quarter too long.
  unsigned disturbed = 0;

private:
  using asked = std::pair<std::uint64_t, vgpu::device::completion>;

  /// Ends a measured span: from the first work after the previous measured end
  /// to now.
  void end_span() {
    auto watched = std::exchange(watched_, false);
    if (auto since = std::exchange(began_, std::nullopt)) {
      worked_ += now_ - *since;
      if (watched && disturbed != 0) {
        worked_ += (now_ - *since) / 4;
        --disturbed;
      }
    }
  }
  void tell() {
    while (!waiting_.empty() && waiting_.front().first <= ended) {
      auto done = std::move(waiting_.front().second);
      waiting_.pop_front();
      done(CUDA_SUCCESS);
    }
  }

  struct piece {
    share_ns length;
    bool copies;
    bool delays = false; // no session's work
  };
  std::deque<piece> left_;
  std::deque<asked> waiting_;
  std::uint64_t brought_ = 0;
  share_ns looks_every_;
  share_ns now_ = 0;
  std::optional<share_ns> began_;
  bool watched_ = false;
  bool delays_ = false;
  share_ns worked_ = 0;
  share_ns settled_ = 0;
};

/// What a program does for ever: it enqueues pieces of one length, each of
/// which costs it host time, and it may wait for them after some.
struct kind {
  share_ns costs;
  share_ns length;
  std::uint64_t waits_after = 0; // waits after so many pieces; 0: never
  share_claim claim{};
  share_ns from = 0;     // begins so long after it joined
  bool copies = false;   // copies use an engine of their own
  share_ns prepares = 0; // host time of its worker for each piece
  share_ns noticed_every = step;
  unsigned clears = 0;     // each n-th copy uses the kernels' engine
  std::size_t deep = 1024; // pieces that the driver's queue holds
};

struct program {
  kind what{};
  std::int32_t seat = 0;
  std::unique_ptr<queue> device{};
  std::unique_ptr<share_gate> gate{};
  share_ns awake_for = 0; // host time that the program has not used yet
  share_ns prepares = 0;  // host time that its worker still needs
  std::uint64_t brought = 0;
};

/// The device serves its sessions' queues in turn, each for a slice. An empty
/// queue gives its slice to the next at once.
struct fixture {
  static constexpr share_ns slice = 2 * ms;
  static constexpr share_ns change = 10 * us;

  share_ns now = 1 * s;
  std::shared_ptr<share_board> board = *share_board::create();
  std::vector<program> all;

  void rules(policy::share_policy by) {
    auto rules = board->rules();
    rules.policy = by;
    board->set_rules(rules);
  }

  void join(const kind& what) {
    program out;
    out.what = what;
    out.what.from += now;
    out.seat = board->sit(what.claim);
    out.device = std::make_unique<queue>(what.noticed_every);
    out.gate = std::make_unique<share_gate>(board, out.seat, *out.device,
                                            [this] { return now; });
    all.push_back(std::move(out));
  }

  /// The key by which the gate names long copies.
  static constexpr work_key copies_key = work_key{1} << 63;

  void host(program& x) {
    if (now < x.what.from || is_preparing(x))
      return;
    auto waits = x.what.waits_after != 0 && x.brought != 0 &&
                 x.brought % x.what.waits_after == 0 &&
                 x.device->ended != x.brought;
    auto full = [&x] { return x.device->size() >= x.what.deep; };
    x.awake_for = waits || full() ? 0 : x.awake_for + step;
    while (!waits && x.awake_for >= x.what.costs && !full()) {
      if (!x.gate->enter(x.what.copies ? copies_key : 1)) {
        x.awake_for = x.what.costs; // its next piece stays ready
        return;
      }
      x.awake_for -= x.what.costs;
      ++x.brought;
      if ((x.prepares = x.what.prepares) != 0)
        return;
      add(x);
      x.gate->submitted();
      waits = x.what.waits_after != 0 && x.brought % x.what.waits_after == 0;
    }
    // The program has no further piece ready for a while.
    if (waits || x.what.costs > step)
      x.gate->rest();
  }

  /// Runs the worker's part of an admitted piece, which the device gets at its
  /// end. Returns whether the worker is still at it.
  bool is_preparing(program& x) {
    if (x.prepares == 0)
      return false;
    if ((x.prepares -= step) != 0)
      return true;
    add(x);
    x.gate->submitted();
    x.gate->rest();
    return false;
  }

  static void add(program& x) {
    auto clears = x.what.clears != 0 && x.brought % x.what.clears == 0;
    x.device->add(x.what.length, x.what.copies && !clears);
  }

  void device() {
    for (auto& x : all)
      (void)x.device->work(true, now, step);
    for (auto left = step; left > 0;) {
      if (!has_kernels(served_) || slice_left_ <= 0) {
        auto next = served_;
        for (auto i = 1u; i <= all.size(); ++i)
          if (auto n = (served_ + i) % all.size(); has_kernels(n)) {
            next = n;
            break;
          }
        if (next != served_)
          left -= change;
        served_ = next;
        slice_left_ = slice;
        if (!has_kernels(served_))
          return;
        continue;
      }
      auto span = std::min(left, slice_left_);
      auto unused = all[served_].device->work(false, now + step - left, span);
      left -= span - unused;
      slice_left_ -= span - unused;
    }
  }

  void run(share_ns span) {
    for (auto end = now + span; now < end; now += step) {
      device();
      for (auto& x : all) {
        x.device->look(now);
        host(x);
      }
    }
  }

  /// Runs for `span`. Returns what each session got done, as a part of what it
  /// gets done alone.
  std::vector<double> parts(share_ns span) {
    std::vector<double> out;
    for (auto& x : all)
      out.push_back(-static_cast<double>(x.device->ended));
    run(span);
    for (auto i = 0u; i < all.size(); ++i)
      out[i] = (out[i] + static_cast<double>(all[i].device->ended)) /
               (alone(all[i].what) * static_cast<double>(span));
    return out;
  }

  /// Like parts(). Also returns what each session was charged, as a part of the
  /// device time of its work.
  std::pair<std::vector<double>, std::vector<double>>
  parts_and_charges(share_ns span) {
    std::vector<double> charged;
    for (auto& x : all)
      charged.push_back(-static_cast<double>(board->look(x.seat).used));
    auto got = parts(span);
    for (auto i = 0u; i < all.size(); ++i) {
      const auto& what = all[i].what;
      charged[i] += static_cast<double>(board->look(all[i].seat).used);
      charged[i] /= got[i] * alone(what) * static_cast<double>(span) *
                    static_cast<double>(what.length);
    }
    return {std::move(got), std::move(charged)};
  }

  /// Returns the part of the device that this kind of work uses alone.
  static double wants(const kind& what) {
    return alone(what) * static_cast<double>(what.length);
  }
  /// Returns how many pieces are done in a nanosecond when the program is
  /// alone.
  static double alone(const kind& what) {
    fixture other;
    other.rules(policy::share_policy::best_effort);
    auto free = what;
    free.claim = {};
    free.from = 0;
    other.join(free);
    other.run(100 * ms);
    auto before = other.all[0].device->ended;
    other.run(400 * ms);
    return static_cast<double>(other.all[0].device->ended - before) /
           (400.0 * ms);
  }

private:
  bool has_kernels(std::size_t i) const { return all[i].device->is_for(false); }

  std::size_t served_ = 0;
  share_ns slice_left_ = 0;
};

double sum(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0);
}
double jain(const std::vector<double>& x) {
  auto squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  return sum(x) * sum(x) / (static_cast<double>(x.size()) * squares);
}

/// Returns the part of the device that each session got.
std::vector<double> device_time(const std::vector<program>& all,
                                std::vector<double> parts) {
  for (auto i = 0u; i < all.size(); ++i)
    parts[i] *= fixture::wants(all[i].what);
  return parts;
}
/// Returns the largest difference between what a session got and what it was
/// promised, as a part of what all got. Each is promised as much as any other,
/// or all that it can use.
double worst_of(const std::vector<program>& all, std::vector<double> parts) {
  auto got = device_time(all, std::move(parts));
  auto left = sum(got);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](auto i) { return fixture::wants(all[i].what); });
  auto worst = 0.0;
  for (auto n = order.size(); auto i : order) {
    auto promised =
        std::min(fixture::wants(all[i].what), left / static_cast<double>(n--));
    left -= promised;
    worst = std::max(worst, std::abs(got[i] - promised));
  }
  return worst / sum(got);
}

constexpr kind tiny{4 * us, 1 * us};
constexpr kind copy{1 * ms, 400 * us, 0, {}, 0, true};
/// Copies of which most is the host's work, and whose ends are noticed sooner
/// or later.
constexpr kind staged(share_ns noticed_every) {
  return {500 * us, 40 * us, 0, {}, 0, true, 100 * us, noticed_every};
}
constexpr kind kernel{4 * us, 500 * us};
constexpr kind huge{4 * us, 12 * ms};

kind with(kind what, double share, double limit = 1) {
  what.claim.share = share;
  what.claim.limit = limit;
  return what;
}

constexpr kind flood{4 * us, 1200};
constexpr kind half_ms{4 * us, 500 * us};
constexpr kind long_one{4 * us, 27 * ms};
/// Copies 1 MiB to the device, within it and back, and clears it.
constexpr kind round_trip{200 * us, 15 * us, 0, {}, 0, true, 0, 20 * us, 4, 32};

} // namespace together_test

using namespace together_test;

BOOST_FIXTURE_TEST_SUITE(concurrent_sessions, together_test::fixture)

BOOST_AUTO_TEST_CASE(sessions_that_leave_the_device_idle_do_not_wait) {
  for (const auto& what : {tiny, copy}) {
    fixture at;
    at.rules(policy::share_policy::equal);
    for (auto i = 0; i < 4; ++i)
      at.join(what);
    at.run(1 * s);
    for (auto window = 0; window < 4; ++window) {
      auto parts = at.parts(2 * s);
      BOOST_TEST(sum(parts) >= 0.95 * 4);
      BOOST_TEST(jain(parts) >= 0.99);
    }
  }
}

BOOST_AUTO_TEST_CASE(sessions_that_fill_the_device_take_turns) {
  rules(policy::share_policy::equal);
  for (auto i = 0; i < 4; ++i)
    join(i < 2 ? kernel : huge);
  run(1 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    BOOST_TEST(sum(got) >= 0.95);
    for (auto x : got)
      BOOST_TEST(std::abs(x - 0.25) < 0.02);
  }
}

BOOST_AUTO_TEST_CASE(concurrent_time_is_not_part_of_the_last_turn) {
  rules(policy::share_policy::equal);
  join(kernel);
  join(tiny);
  run(4 * s);
  BOOST_REQUIRE(board->locked([](auto& x) { return x.concurrent.is_on(); }));
  auto partings =
      board->locked([](auto& x) { return x.concurrent.partings(); });
  BOOST_REQUIRE(partings > 2u); // each that joins causes one
  for (const auto& x : all)
    BOOST_TEST(board->look(x.seat).concurrent.turns_took() < 100 * ms);
}

/// The worst difference from the promise in windows of 2 s, and the least work
/// of all sessions as a part of their work without turns.
struct outcome_of_sharing {
  double worst = 0;
  double done = 10;
};
outcome_of_sharing share(const std::vector<kind>& kinds) {
  outcome_of_sharing out;
  auto free = 0.0;
  for (auto rule :
       {policy::share_policy::best_effort, policy::share_policy::equal}) {
    fixture at;
    at.rules(rule);
    for (const auto& x : kinds)
      at.join(x);
    at.run(2 * s);
    if (rule == policy::share_policy::best_effort) {
      free = sum(at.parts(2 * s));
      continue;
    }
    for (auto window = 0; window < 4; ++window) {
      auto got = at.parts(2 * s);
      out.worst = std::max(out.worst, worst_of(at.all, got));
      out.done = std::min(out.done, sum(got) / free);
    }
  }
  return out;
}

BOOST_AUTO_TEST_CASE(each_gets_its_part_and_the_device_is_not_idle) {
  const std::vector<std::vector<kind>> sets{
      {half_ms, flood},
      {half_ms, round_trip},
      {flood, flood, flood, flood},
      {round_trip, round_trip, round_trip, round_trip},
      {tiny, kernel, kernel, kernel}};
  for (auto i = 0u; i < sets.size(); ++i) {
    auto got = share(sets[i]);
    BOOST_TEST_CONTEXT("set " << i << " " << got.worst << " " << got.done) {
      BOOST_TEST(got.worst < 0.02);
      BOOST_TEST(got.done >= 0.95);
    }
  }
}

/// Most of a flood's time is the host's, which other tenants slow down now and
/// then.
BOOST_AUTO_TEST_CASE(a_session_with_a_slow_host_delays_no_other) {
  std::vector<double> done;
  for (auto rule :
       {policy::share_policy::best_effort, policy::share_policy::equal}) {
    fixture at;
    at.rules(rule);
    at.join(half_ms);
    at.join(flood);
    at.run(3 * s);
    done.push_back(0);
    for (auto i = 0; i < 16; ++i) {
      at.all[1].what.costs = flood.costs * (i % 2 == 0 ? 12 : 10) / 10;
      done.back() += sum(at.parts(250 * ms));
    }
  }
  BOOST_TEST(done[1] >= 0.98 * done[0]);
}

BOOST_AUTO_TEST_CASE(one_disturbed_measurement_changes_nothing) {
  rules(policy::share_policy::equal);
  for (auto i = 0; i < 4; ++i)
    join(flood);
  run(1 * s);
  all[1].device->disturbed = 1; // in its next measurement
  run(3 * s);
  BOOST_REQUIRE(all[1].device->disturbed == 0);
  auto got = parts(2 * s);
  for (auto x : got)
    BOOST_TEST(std::abs(x / sum(got) - 0.25) < 0.02);
}

BOOST_AUTO_TEST_CASE(copies_do_not_wait_for_kernels) {
  rules(policy::share_policy::equal);
  for (const auto& x : {tiny, kernel, huge, copy})
    join(x);
  run(2 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    BOOST_TEST(got.back() >= 0.95);
    got.pop_back();
    BOOST_TEST(sum(got) >= 1.25);
  }
}

/// One piece in four of a round trip waits for the slices of all others, so
/// less than its part reaches the device.
BOOST_AUTO_TEST_CASE(a_round_trip_gets_its_part_among_three_that_fill_it) {
  auto got = share({half_ms, long_one, round_trip, flood});
  BOOST_TEST(got.worst < 0.05);
  BOOST_TEST(got.done >= 0.95);
}

BOOST_AUTO_TEST_CASE(guarantees_hold_and_unused_time_is_given_away) {
  rules(policy::share_policy::guarantee);
  join(with(tiny, 0.8));
  join(with(kernel, 0.2));
  run(1 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    BOOST_TEST(got[0] >= 0.78);
    BOOST_TEST(got[1] >= 0.2);
    BOOST_TEST(sum(got) >= 1.1);
  }
}

BOOST_AUTO_TEST_CASE(a_limit_holds_among_other_sessions) {
  rules(policy::share_policy::guarantee);
  join(with(tiny, 1, 0.1));
  join(with(kernel, 1, 0.25));
  join(tiny);
  run(1 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    auto used = device_time(all, got);
    BOOST_TEST(std::abs(used[0] - 0.1) < 0.02);
    BOOST_TEST(std::abs(used[1] - 0.25) < 0.02);
    BOOST_TEST(got[2] >= 0.85);
  }
}

BOOST_AUTO_TEST_CASE(a_session_that_waits_for_its_work_delays_no_other) {
  rules(policy::share_policy::equal);
  auto waits = tiny;
  waits.waits_after = 1;
  join(waits);
  join(tiny);
  run(1 * s);
  auto got = parts(4 * s);
  BOOST_TEST(got[0] >= 0.5);
  BOOST_TEST(got[1] >= 0.9);
}

BOOST_AUTO_TEST_CASE(a_late_sessions_work_is_measured_alone_first) {
  rules(policy::share_policy::equal);
  for (const auto& x : {tiny, kernel, kernel})
    join(x);
  auto late = kernel;
  late.from = 1 * s;
  join(late);
  run(1 * s);
  auto first = parts(500 * ms);
  for (auto x : first)
    BOOST_TEST(x >= 0.15);
  BOOST_TEST(worst_of(all, parts(2 * s)) < 0.02);
}

BOOST_AUTO_TEST_CASE(copies_are_charged_their_device_time) {
  rules(policy::share_policy::equal);
  for (auto noticed_every : {20 * us, 60 * us, 160 * us, 320 * us})
    join(staged(noticed_every));
  run(1 * s);
  for (auto window = 0; window < 10; ++window) {
    auto [got, charged] = parts_and_charges(2 * s);
    BOOST_TEST(sum(got) >= 0.95 * 4);
    BOOST_TEST(jain(got) >= 0.99);
    for (auto x : charged)
      BOOST_TEST(std::abs(x - 1) < 0.05);
  }
}

BOOST_AUTO_TEST_CASE(copies_are_charged_their_device_time_beside_kernels) {
  for (auto by_own_engine : {true, false}) {
    fixture at;
    at.rules(policy::share_policy::equal);
    auto copying = staged(60 * us);
    copying.copies = by_own_engine;
    for (const auto& x : {kernel, huge, tiny, copying})
      at.join(x);
    at.run(2 * s);
    for (auto window = 0; window < 10; ++window) {
      auto [got, charged] = at.parts_and_charges(2 * s);
      BOOST_TEST(std::abs(charged.back() - 1) < 0.05);
      BOOST_TEST(got.back() >= 0.95);
      BOOST_TEST(worst_of(at.all, got) < 0.02);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_limit_does_not_count_the_host_time_of_copies) {
  rules(policy::share_policy::guarantee);
  join(with(staged(60 * us), 1, 0.25));
  join(with(kernel, 1, 0.25));
  run(2 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    BOOST_TEST(got[0] >= 0.95);
    BOOST_TEST(std::abs(got[1] - 0.25) < 0.02);
  }
}

BOOST_AUTO_TEST_CASE(strict_priority_takes_turns) {
  rules(policy::share_policy::priority);
  auto first = tiny;
  first.claim.priority = 1;
  join(first);
  join(tiny);
  run(1 * s);
  auto got = parts(4 * s);
  BOOST_TEST(got[0] >= 0.95);
  BOOST_TEST(got[1] <= 0.05);
}

/// This holds also where the first session leaves the device idle for much of
/// the time.
BOOST_AUTO_TEST_CASE(the_first_by_priority_hardly_waits) {
  constexpr kind answers{10 * ms, 2 * ms}; // as an interactive program
  struct expected {
    kind first;
    double least; // as a part of what it gets done alone
    double others;
  };
  for (const auto& x :
       {expected{round_trip, 0.95, 0.01}, expected{staged(60 * us), 0.95, 0.01},
        expected{answers, 0.8, 0.5}}) {
    fixture at;
    at.rules(policy::share_policy::priority);
    auto first = x.first;
    first.claim.priority = 1;
    at.join(first);
    at.join(kernel);
    at.run(1 * s);
    for (auto window = 0; window < 2; ++window) {
      auto got = at.parts(4 * s);
      BOOST_TEST(got[0] >= x.least);
      BOOST_TEST(got[1] >= x.others);
    }
  }
}

/// The gate watches the first work, which ends only when the second has
/// arrived.
BOOST_AUTO_TEST_CASE(work_that_needs_later_work_does_not_block_the_gate) {
  rules(policy::share_policy::equal);
  join(tiny);
  join(tiny);
  auto& x = all[0];
  auto bring = [&](work_key what, share_ns length) {
    if (!x.gate->enter(what))
      return false;
    x.device->add(length, false);
    x.gate->submitted();
    x.gate->rest();
    return true;
  };
  for (work_key what : {1, 2}) {
    BOOST_REQUIRE(bring(what, 10 * us));
    for (auto i = 0; i < 100; ++i, now += step) {
      device();
      x.device->look(now);
    }
  }
  BOOST_REQUIRE(board->sit({}) >= 0); // sessions take turns
  BOOST_REQUIRE(bring(1, 1000 * s));
  now += 1 * ms;
  BOOST_TEST(!bring(2, 10 * us));
  // It is held only briefly, because the session's turn is also the other's
  // time.
  now += board->rules().quantum / 4;
  BOOST_TEST(bring(2, 10 * us));
}

BOOST_AUTO_TEST_SUITE_END()
