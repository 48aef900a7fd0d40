// Gates of several sessions on a simulated GPU that goes from one session's
// work to the next as real ones do, in virtual time: what is gained where none
// of them fills it alone.
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

/// A session's queue in the device, which knows how long it worked. What is
/// done is noticed when somebody looks, so often.
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
  /// `copies`: by an engine that kernels do not use.
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
  /// Whether that engine has the next of it to do.
  bool is_for(bool copies) const {
    return !left_.empty() && left_.front().copies == copies;
  }
  std::size_t size() const { return left_.size(); }
  /// One engine works for so long, at most; returns what is left of that.
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
  /// So many times yet that it is watched at something, it seems to take a
  /// quarter longer.
  unsigned disturbed = 0;

private:
  using asked = std::pair<std::uint64_t, vgpu::device::completion>;

  /// From the first work behind the last end that was asked for.
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
    bool delays = false; // nobody's work
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

/// What a program does for ever: brings kernels of one length, each of which
/// costs it time of its own, and pauses after some of them, or waits for them.
struct kind {
  share_ns costs;
  share_ns length;
  std::uint64_t waits_after = 0; // so many; 0: never
  share_claim claim{};
  share_ns from = 0;     // after it has joined
  bool copies = false;   // by an engine that kernels do not use
  share_ns prepares = 0; // its worker, each, when it may be enqueued
  share_ns noticed_every = step;
  unsigned clears = 0;     // of so many copies the last is a kernel's
  std::size_t deep = 1024; // so many wait in the driver; it takes no more then
};

struct program {
  kind what{};
  std::int32_t seat = 0;
  std::unique_ptr<queue> device{};
  std::unique_ptr<share_gate> gate{};
  share_ns awake_for = 0; // not spent yet
  share_ns prepares = 0;  // for so long still
  std::uint64_t brought = 0;
};

/// Sessions' queues are served in turns of a slice; an empty one at once gives
/// way to the next.
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

  /// As the gate names long copies.
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
        x.awake_for = x.what.costs; // it has this one at hand
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
    // Nothing more is at hand for a while.
    if (waits || x.what.costs > step)
      x.gate->rest();
  }

  /// Its worker's part of what was let in; the device gets it then.
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

  /// What each got done in the time, beside what it gets done alone.
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

  /// The same, and what each was charged beside what its work takes the device.
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

  /// The part of the device that it uses alone.
  static double wants(const kind& what) {
    return alone(what) * static_cast<double>(what.length);
  }
  /// Pieces a nanosecond.
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

/// Of the device, what each got beside what it can use alone.
std::vector<double> device_time(const std::vector<program>& all,
                                std::vector<double> parts) {
  for (auto i = 0u; i < all.size(); ++i)
    parts[i] *= fixture::wants(all[i].what);
  return parts;
}
/// By how much one got less or more than it is promised of what all got: as
/// much as any other, or all that it can use.
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
/// Of which most is the host's, and noticed sooner or later.
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
/// 1 MiB there, further and back, and cleared.
constexpr kind round_trip{200 * us, 15 * us, 0, {}, 0, true, 0, 20 * us, 4, 32};

} // namespace together_test

using namespace together_test;

BOOST_FIXTURE_TEST_SUITE(concurrent_sessions, together_test::fixture)

BOOST_AUTO_TEST_CASE(who_leave_the_device_idle_have_all_that_they_can_use) {
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

BOOST_AUTO_TEST_CASE(who_fill_the_device_take_turns) {
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

BOOST_AUTO_TEST_CASE(time_together_is_no_turn_of_who_had_the_last_one) {
  rules(policy::share_policy::equal);
  join(kernel);
  join(tiny);
  run(4 * s);
  BOOST_REQUIRE(board->locked([](auto& x) { return x.concurrent.is_on(); }));
  auto partings =
      board->locked([](auto& x) { return x.concurrent.partings(); });
  BOOST_REQUIRE(partings > 2u); // who joined is one each
  for (const auto& x : all)
    BOOST_TEST(board->look(x.seat).concurrent.turns_took() < 100 * ms);
}

/// In windows of 2 s, and the least of what all got done beside what they get
/// done without turns.
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

BOOST_AUTO_TEST_CASE(each_has_its_part_of_the_device_and_it_is_not_idle) {
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

/// Of what a flood takes most is the host's, which other tenants make slow now
/// and then.
BOOST_AUTO_TEST_CASE(nobody_waits_for_whose_host_is_slow) {
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

BOOST_AUTO_TEST_CASE(one_look_that_was_disturbed_tells_nothing) {
  rules(policy::share_policy::equal);
  for (auto i = 0; i < 4; ++i)
    join(flood);
  run(1 * s);
  all[1].device->disturbed = 1; // when it is looked at again
  run(3 * s);
  BOOST_REQUIRE(all[1].device->disturbed == 0);
  auto got = parts(2 * s);
  for (auto x : got)
    BOOST_TEST(std::abs(x / sum(got) - 0.25) < 0.02);
}

BOOST_AUTO_TEST_CASE(who_copies_waits_for_no_kernels) {
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

/// Of a round trip one piece in four waits for the slices of all others: less
/// than its part comes to the device.
BOOST_AUTO_TEST_CASE(also_among_three_that_fill_it) {
  auto got = share({half_ms, long_one, round_trip, flood});
  BOOST_TEST(got.worst < 0.05);
  BOOST_TEST(got.done >= 0.95);
}

BOOST_AUTO_TEST_CASE(promises_are_kept_and_the_rest_is_given_away) {
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

BOOST_AUTO_TEST_CASE(a_limit_holds_among_others) {
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

BOOST_AUTO_TEST_CASE(who_waits_for_its_work_does_not_keep_others_waiting) {
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

BOOST_AUTO_TEST_CASE(what_a_late_one_brings_is_seen_alone_first) {
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

BOOST_AUTO_TEST_CASE(copies_are_charged_what_the_device_does_for_them) {
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

BOOST_AUTO_TEST_CASE(
    also_beside_kernels_whether_these_are_in_their_way_or_not) {
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

BOOST_AUTO_TEST_CASE(a_limit_is_no_limit_of_what_copies_cost_the_host) {
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

BOOST_AUTO_TEST_CASE(strict_priority_is_turns) {
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

/// Also who leaves the device idle for much of the time.
BOOST_AUTO_TEST_CASE(who_comes_first_waits_for_nobody_for_long) {
  constexpr kind answers{10 * ms, 2 * ms}; // as somebody asks
  struct expected {
    kind first;
    double least; // of what it gets done alone
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

/// It is to be watched, and what is in the device ends only when it has come.
BOOST_AUTO_TEST_CASE(what_waits_for_later_work_is_not_waited_for) {
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
  BOOST_REQUIRE(board->sit({}) >= 0); // sessions part
  BOOST_REQUIRE(bring(1, 1000 * s));
  now += 1 * ms;
  BOOST_TEST(!bring(2, 10 * us));
  // Nor for long: its turn is the other's time as well.
  now += board->rules().quantum / 4;
  BOOST_TEST(bring(2, 10 * us));
}

BOOST_AUTO_TEST_SUITE_END()
