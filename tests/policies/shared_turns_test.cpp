// Turns on a simulated device that does several sessions' work at once, in
// virtual time.
#include "policies/share.hpp"
#include "share_units.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace vgpu::policy;

namespace {

/// Launches kernels one after another, each `gap` after the one before.
struct tenant {
  share_claim claim{};
  share_ns kernel = 1 * ms; // alone
  share_ns gap = 0;
  /// How much of the device it can use.
  double fill = 0.9;
  share_ns to = never;

  std::int32_t seat = share_table::nobody;
  share_ns ready_at = 0; // its next kernel
  share_ns began_at = 0; // its kernel; 0: none is in the device
  share_ns charged_at = 0;
  double left = 0;                 // of it, ns alone
  double worked = 0;               // of the device's time, ever
  std::vector<double> by_ms{0, 0}; // the same after each millisecond
};

/// Who has a kernel in the device gets a part of it in proportion to what it
/// could use, as the threads of a host do.
class shared_device {
public:
  share_table table;
  std::vector<tenant> tenants;
  share_ns now = 1 * s;

  explicit shared_device(share_policy policy = share_policy::guarantee) {
    table.rules.policy = policy;
    table.rules.at_once = most_seats;
  }

  void add(tenant x) {
    x.seat = sit(table, x.claim, now);
    x.ready_at = now;
    x.to = x.to == never ? never : now + x.to;
    tenants.push_back(x);
  }

  void run(share_ns span) {
    for (auto end = now + span; now < end; now += step) {
      for (auto& x : tenants)
        begin(x);
      work();
      if (now % ms == 0)
        for (auto& x : tenants)
          x.by_ms.push_back(x.worked);
    }
  }

  /// What it got of the device in [from, to), which count from the beginning.
  double got(std::size_t i, share_ns from, share_ns to) const {
    auto& all = tenants[i].by_ms;
    return (all[static_cast<std::size_t>(to / ms)] -
            all[static_cast<std::size_t>(from / ms)]) /
           static_cast<double>(to - from);
  }
  double got_by_all(share_ns from, share_ns to) const {
    auto sum = 0.0;
    for (auto i = 0u; i < tenants.size(); ++i)
      sum += got(i, from, to);
    return sum;
  }

  /// The largest difference between its part of what all got in a window of
  /// 2 s and `promise`, after a second to settle.
  double worst(std::size_t i, double promise) const {
    auto out = 0.0;
    auto end = static_cast<share_ns>(tenants[i].by_ms.size() - 1) * ms;
    for (auto at = s; at + 2 * s <= end; at += 37 * ms)
      out = std::max(
          out, std::abs(got(i, at, at + 2 * s) / got_by_all(at, at + 2 * s) -
                        promise));
    return out;
  }

  double jain(share_ns from, share_ns to) const {
    auto sum = 0.0;
    auto squares = 0.0;
    for (auto i = 0u; i < tenants.size(); ++i) {
      sum += got(i, from, to);
      squares += got(i, from, to) * got(i, from, to);
    }
    return sum * sum / (static_cast<double>(tenants.size()) * squares);
  }

private:
  static constexpr share_ns step = 20 * us;

  /// As a gate does: its next kernel, if it has one and may.
  void begin(tenant& x) {
    if (x.began_at != 0 || now < x.ready_at || now >= x.to)
      return;
    auto may = [&] {
      return holds(table, x.seat) &&
             (is_fresh(table, x.seat) ||
              left_of_turn(table, x.seat, now) >= x.kernel / 2 ||
              renew(table, x.seat, now));
    };
    if (!may()) {
      end_turn(table, x.seat);
      want(table, x.seat, now);
      arbitrate(table, now);
      if (!may())
        return;
    }
    begin_work(table, x.seat, now);
    x.began_at = x.charged_at = now;
    x.left = static_cast<double>(x.kernel);
  }

  void work() {
    auto wanted = 0.0;
    for (auto& x : tenants)
      wanted += x.began_at != 0 ? x.fill : 0;
    auto slower = std::max(wanted, 1.0);
    for (auto& x : tenants)
      if (x.began_at != 0) {
        x.left -= step / slower;
        x.worked += x.fill * step / slower;
        if (x.left <= 0)
          end(x);
      }
  }

  void end(tenant& x) {
    auto took = now + step - x.charged_at;
    auto part = [&](double of) { return static_cast<share_ns>(x.fill * of); };
    charge(table, x.seat,
           {.present = took,
            .worked = part(static_cast<double>(x.kernel)),
            .wanted = part(static_cast<double>(took))},
           now + step);
    end_work(table, x.seat, now + step);
    x.began_at = 0;
    x.ready_at = now + step + x.gap;
    arbitrate(table, now + step);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(shared_turns)

BOOST_AUTO_TEST_CASE(four_and_eight_programs_get_the_same) {
  for (auto n : {4, 8}) {
    shared_device sim{share_policy::equal};
    for (auto i = 0; i < n; ++i)
      sim.add({.kernel = (i + 1) * 700 * us});
    sim.run(10 * s);
    for (auto at = s; at < 8 * s; at += 100 * ms)
      BOOST_TEST(sim.jain(at, at + 2 * s) >= 0.99);
    for (auto i = 0u; i < sim.tenants.size(); ++i)
      BOOST_TEST(sim.worst(i, 1.0 / n) < two_points);
    BOOST_TEST(sim.got_by_all(s, 10 * s) >= 0.98);
  }
}

BOOST_AUTO_TEST_CASE(promises_are_kept_and_the_device_is_busy) {
  shared_device sim;
  for (auto share : {0.5, 0.3, 0.2})
    sim.add({.claim = {.share = share}});
  sim.run(10 * s);
  BOOST_TEST(sim.worst(0, 0.5) < two_points);
  BOOST_TEST(sim.worst(1, 0.3) < two_points);
  BOOST_TEST(sim.worst(2, 0.2) < two_points);
  BOOST_TEST(sim.got_by_all(s, 10 * s) >= 0.95);
}

BOOST_AUTO_TEST_CASE(shares_change_while_programs_run) {
  shared_device sim;
  sim.add({.claim = {.share = 0.8}});
  sim.add({.claim = {.share = 0.2}});
  sim.run(5 * s);
  BOOST_TEST(sim.worst(1, 0.2) < two_points);
  set_claim(sim.table, sim.tenants[0].seat, {.share = 0.3}, sim.now);
  set_claim(sim.table, sim.tenants[1].seat, {.share = 0.7}, sim.now);
  sim.run(5 * s);
  BOOST_TEST(
      std::abs(sim.got(0, 6 * s, 10 * s) / sim.got_by_all(6 * s, 10 * s) -
               0.3) < two_points);
}

BOOST_AUTO_TEST_CASE(kernels_longer_than_a_turn_are_paid_for_later) {
  shared_device sim{share_policy::equal};
  sim.add({.kernel = 90 * ms});
  sim.add({.kernel = 1 * ms});
  sim.run(20 * s);
  BOOST_TEST(std::abs(sim.got(0, s, 20 * s) / sim.got_by_all(s, 20 * s) - 0.5) <
             two_points);
}

BOOST_AUTO_TEST_CASE(who_can_use_little_holds_up_nobody) {
  shared_device sim{share_policy::equal};
  sim.add({.fill = 1.0 / 16}); // one thread of sixteen
  sim.add({});
  sim.add({});
  sim.run(10 * s);
  BOOST_TEST(sim.got(0, s, 10 * s) >= 0.03); // of the 0.06 that it wants
  BOOST_TEST(sim.got_by_all(s, 10 * s) >= 0.97);
  BOOST_TEST(std::abs(sim.got(1, s, 10 * s) - sim.got(2, s, 10 * s)) <
             two_points);
}

BOOST_AUTO_TEST_CASE(who_pauses_between_kernels_holds_up_nobody) {
  for (auto gap : {300 * us, 900 * us, 5 * ms}) {
    shared_device sim{share_policy::equal};
    sim.add({.kernel = 200 * us, .gap = gap});
    sim.add({.kernel = 3 * ms});
    sim.run(10 * s);
    BOOST_TEST_CONTEXT("pauses of " << gap << " ns") {
      BOOST_TEST(sim.got_by_all(s, 10 * s) >= 0.8);
      auto alone = 0.9 * 200 * us / static_cast<double>(200 * us + gap);
      BOOST_TEST(sim.got(0, s, 10 * s) >= 0.6 * alone);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_fill_the_device_together_do_not_wait) {
  shared_device sim;
  sim.add({.claim = {.share = 0.8}, .fill = 0.5});
  sim.add({.claim = {.share = 0.2}, .fill = 0.5});
  sim.run(5 * s);
  BOOST_TEST(sim.got_by_all(s, 5 * s) >= 0.85);
}

BOOST_AUTO_TEST_CASE(limits_hold_for_each) {
  shared_device sim;
  for (auto i = 0; i < 3; ++i)
    sim.add({.claim = {.limit = 0.25}});
  sim.run(10 * s);
  for (auto i = 0u; i < 3; ++i)
    for (auto at = s; at <= 8 * s; at += 50 * ms)
      BOOST_TEST(sim.got(i, at, at + 2 * s) < 0.25 + two_points);
  BOOST_TEST(sim.got_by_all(s, 10 * s) > 0.6);
}

BOOST_AUTO_TEST_CASE(a_limit_holds_beside_one_who_uses_little) {
  shared_device sim;
  sim.add({.claim = {.limit = 0.25}});
  for (auto i = 0; i < 4; ++i)
    sim.add({.fill = 0.02});
  sim.run(10 * s);
  BOOST_TEST(sim.got(0, s, 10 * s) < 0.25 + two_points);
}

BOOST_AUTO_TEST_CASE(idle_time_is_given_away_at_once) {
  shared_device sim;
  sim.add({.claim = {.share = 0.9}, .to = 5 * s});
  sim.add({.claim = {.share = 0.1}});
  sim.run(8 * s);
  BOOST_TEST(std::abs(sim.got(1, 2 * s, 4 * s) / sim.got_by_all(2 * s, 4 * s) -
                      0.1) < two_points);
  BOOST_TEST(sim.got(1, 5 * s + 50 * ms, 8 * s) > 0.89);
}

BOOST_AUTO_TEST_CASE(higher_priority_goes_first_but_nobody_starves) {
  shared_device sim{share_policy::priority};
  sim.add({.claim = {.priority = 10}});
  sim.add({.claim = {.priority = 1}});
  sim.run(20 * s);
  BOOST_TEST(sim.got(0, s, 20 * s) > 0.85);
  BOOST_TEST(sim.got(1, s, 20 * s) > 0.005);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_ever_for_one_who_does_not_catch_up) {
  share_table table;
  table.rules.at_once = most_seats;
  auto now = 1 * s;
  auto behind = sit(table, {}, now);
  auto ahead = sit(table, {}, now);
  auto goes = [&](std::int32_t seat) {
    want(table, seat, now);
    return arbitrate(table, now).granted.test(static_cast<std::size_t>(seat));
  };
  BOOST_REQUIRE(goes(behind));
  begin_work(table, behind, now);
  table.seats[static_cast<std::size_t>(ahead)].virtual_time += 1e10;
  BOOST_TEST(!goes(ahead));
  now += 24 * table.rules.quantum;
  BOOST_TEST(!goes(ahead));
  now += 2 * table.rules.quantum;
  BOOST_TEST(goes(ahead));
  // What the other could not take in that time is not owed any more.
  end_turn(table, ahead);
  now += ms;
  BOOST_TEST(goes(ahead));
}

BOOST_AUTO_TEST_CASE(as_many_have_turns_as_may) {
  share_table table;
  table.rules.at_once = 2;
  std::int32_t seats[3];
  for (auto& x : seats) {
    x = sit(table, {}, 0);
    want(table, x, 0);
  }
  BOOST_TEST(arbitrate(table, 0).granted.count() == 2u);
  begin_work(table, seats[0], 0);
  BOOST_TEST(arbitrate(table, ms).granted.none());
  end_work(table, seats[0], ms);
  end_turn(table, seats[0]);
  BOOST_TEST(arbitrate(table, 2 * ms).granted.count() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
