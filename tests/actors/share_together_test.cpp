// Gates of several sessions on a simulated GPU that goes from one session's
// work to the next as real ones do, in virtual time: what is gained where none
// of them fills it alone.
#include "actors/share_gate.hpp"
#include "policies/share_together.hpp"

#include "plain_device.hpp"

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

/// A session's queue in the device.
class queue final : public test::plain_device {
public:
  void add(share_ns length) {
    left_.push_back(length);
    ++brought_;
  }
  void when_done(std::optional<stream_id>,
                 vgpu::device::completion done) override {
    waiting_.emplace_back(brought_, std::move(done));
    tell();
  }
  bool empty() const { return left_.empty(); }
  /// As a driver takes no more then.
  bool full() const { return left_.size() >= 1024; }
  /// Works for so long, at most; returns what is left of that.
  share_ns work(share_ns span) {
    while (span > 0 && !left_.empty()) {
      auto part = std::min(span, left_.front());
      left_.front() -= part;
      span -= part;
      if (left_.front() != 0)
        break;
      left_.pop_front();
      ++ended;
    }
    tell();
    return span;
  }

  std::uint64_t ended = 0;

private:
  void tell() {
    while (!waiting_.empty() && waiting_.front().first <= ended) {
      auto done = std::move(waiting_.front().second);
      waiting_.pop_front();
      done(CUDA_SUCCESS);
    }
  }

  std::deque<share_ns> left_;
  std::deque<std::pair<std::uint64_t, vgpu::device::completion>> waiting_;
  std::uint64_t brought_ = 0;
};

/// What a program does for ever: brings kernels of one length, each of which
/// costs it time of its own, and pauses after some of them, or waits for them.
struct kind {
  share_ns costs;
  share_ns length;
  std::uint64_t waits_after = 0; // so many; 0: never
  share_claim claim{};
  share_ns from = 0;   // after it has joined
  bool copies = false; // by an engine that kernels do not use
};

struct program {
  kind what{};
  std::int32_t seat = 0;
  std::unique_ptr<queue> device{};
  std::unique_ptr<share_gate> gate{};
  share_ns awake_for = 0; // not spent yet
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
    out.device = std::make_unique<queue>();
    out.gate = std::make_unique<share_gate>(board, out.seat, *out.device,
                                            [this] { return now; });
    all.push_back(std::move(out));
  }

  void host(program& x) {
    if (now < x.what.from)
      return;
    auto waits = x.what.waits_after != 0 && x.brought != 0 &&
                 x.brought % x.what.waits_after == 0 &&
                 x.device->ended != x.brought;
    x.awake_for = waits || x.device->full() ? 0 : x.awake_for + step;
    while (!waits && x.awake_for >= x.what.costs && !x.device->full()) {
      if (!x.gate->enter(1)) {
        x.awake_for = x.what.costs; // it has this one at hand
        return;
      }
      x.device->add(x.what.length);
      x.gate->submitted();
      x.awake_for -= x.what.costs;
      ++x.brought;
      waits = x.what.waits_after != 0 && x.brought % x.what.waits_after == 0;
    }
    // Nothing more is at hand for a while.
    if (waits || x.what.costs > step)
      x.gate->rest();
  }

  void device() {
    for (auto& x : all)
      if (x.what.copies)
        (void)x.device->work(step);
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
      auto unused = all[served_].device->work(span);
      left -= span - unused;
      slice_left_ -= span - unused;
    }
  }

  void run(share_ns span) {
    for (auto end = now + span; now < end; now += step) {
      device();
      for (auto& x : all)
        host(x);
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
  bool has_kernels(std::size_t i) const {
    return !all[i].what.copies && !all[i].device->empty();
  }

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

constexpr kind tiny{4 * us, 1 * us};
constexpr kind copy{1 * ms, 400 * us, 0, {}, 0, true};
constexpr kind kernel{4 * us, 500 * us};
constexpr kind huge{4 * us, 12 * ms};

kind with(kind what, double share, double limit = 1) {
  what.claim.share = share;
  what.claim.limit = limit;
  return what;
}

} // namespace together_test

using namespace together_test;

BOOST_FIXTURE_TEST_SUITE(sessions_together, together_test::fixture)

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

BOOST_AUTO_TEST_CASE(nobody_has_less_than_turns_would_give_it) {
  rules(policy::share_policy::equal);
  for (const auto& x : {tiny, kernel, huge, copy})
    join(x);
  run(1 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    // Copies want less than their part, and so have all that they want.
    BOOST_TEST(got.back() >= 0.95);
    got.pop_back();
    BOOST_TEST(sum(got) >= 1.25);
    BOOST_TEST(jain(got) >= 0.99);
  }
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
  join(with(tiny, 1, 0.25));
  join(with(kernel, 1, 0.25));
  join(tiny);
  run(1 * s);
  for (auto window = 0; window < 4; ++window) {
    auto got = parts(2 * s);
    BOOST_TEST(std::abs(got[0] - 0.25) < 0.02);
    BOOST_TEST(std::abs(got[1] - 0.25) < 0.02);
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
    BOOST_TEST(x >= 0.2);
  auto got = parts(2 * s);
  for (auto x : got)
    BOOST_TEST(std::abs(x - sum(got) / 4) < 0.02);
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

BOOST_AUTO_TEST_SUITE_END()
