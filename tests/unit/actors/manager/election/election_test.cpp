#include "actors/manager/election/election.hpp"

#include "actors/link/log.hpp"
#include "tests/unit/actors/manager/election/fake_etcd.hpp"

#include <boost/test/unit_test.hpp>

#include <deque>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

struct candidate {
  test::fake_etcd& etcd;
  bool cut_off = false;
  std::deque<std::pair<std::uint64_t, etcd::question>> asked;
  etcd::record known;
  bool frozen = false;
  election race;

  candidate(test::fake_etcd& where, const std::string& name, time_point now)
      : etcd(where), race(
                         [&] {
                           election_options x;
                           x.endpoint = name;
                           x.known = [this] { return known; };
                           return x;
                         }(),
                         [this](std::uint64_t number, etcd::question what,
                                std::chrono::milliseconds) {
                           asked.emplace_back(number, std::move(what));
                         },
                         now) {}

  /// One question reaches etcd, and its answer comes back.
  void exchange(time_point now) {
    auto [number, what] = std::move(asked.front());
    asked.pop_front();
    if (auto got = cut_off ? std::nullopt : etcd.ask(what, now))
      race.on_answer({number, std::move(*got)}, now);
  }

  void step(time_point now) {
    race.on_time(now);
    for (auto i = 0; i < 10 && !asked.empty(); ++i)
      exchange(now);
  }
};

struct contest {
  time_point now{1h};
  test::fake_etcd etcd;
  candidate a{etcd, "tcp://a", now};
  candidate b{etcd, "tcp://b", now};

  contest() { spdlog::set_level(spdlog::level::off); }

  /// Whoever is frozen leads as much as it believes to; of the others one does
  /// at most, and never one whose lease etcd has ended.
  void live(std::chrono::milliseconds span) {
    for (; span > 0ms; span -= 10ms) {
      now += 10ms;
      for (auto* x : {&a, &b})
        if (!x->frozen)
          x->step(now);
      check();
    }
  }

  void check() {
    for (auto* x : {&a, &b})
      if (!x->frozen && x->race.leads()) {
        BOOST_REQUIRE(etcd.leader(now).has_value());
        BOOST_REQUIRE(*etcd.leader(now) == *x->race.leader());
      }
  }

  /// How long until it leads.
  std::chrono::milliseconds until_leads(candidate& x) {
    auto begun = now;
    while (!x.race.leads() && now < begun + 10s)
      live(10ms);
    BOOST_REQUIRE(x.race.leads());
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - begun);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(elections, contest)

BOOST_AUTO_TEST_CASE(who_finds_no_leader_leads) {
  b.frozen = true;
  live(20ms);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 1u);
  BOOST_TEST(a.race.leader()->endpoint == "tcp://a");
  live(1min);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 1u);
}

BOOST_AUTO_TEST_CASE(the_other_knows_who_leads) {
  live(10ms);
  live(1s);
  BOOST_TEST(!b.race.leads());
  BOOST_TEST(b.race.leader()->endpoint == "tcp://a");
  BOOST_TEST(etcd.leases(now) == 1u);
}

BOOST_AUTO_TEST_CASE(of_two_at_once_one_leads) {
  // Both see that nobody leads, and have their leases, before either takes it.
  for (auto* x : {&a, &b}) {
    x->race.on_time(now);
    x->exchange(now);
    x->exchange(now);
  }
  for (auto* x : {&b, &a})
    x->exchange(now);
  BOOST_TEST(b.race.leads());
  BOOST_TEST(!a.race.leads());
  live(20ms);
  BOOST_TEST(etcd.leases(now) == 1u);
  BOOST_TEST(a.race.leader()->endpoint == "tcp://b");
}

BOOST_AUTO_TEST_CASE(who_is_killed_is_followed_when_its_lease_is_over) {
  live(5s);
  a.frozen = true; // and never wakes up
  auto took = until_leads(b);
  BOOST_TEST(took.count() <= 2'200);
  BOOST_TEST(b.race.right().term == 2u);
}

BOOST_AUTO_TEST_CASE(who_was_frozen_leads_no_more_when_it_wakes_up) {
  live(5s);
  a.frozen = true;
  until_leads(b);
  live(5s);
  // The first that it hears is an answer to what it had asked before.
  a.asked.clear();
  a.frozen = false;
  a.race.on_answer({0, etcd::renewed{2s}}, now);
  BOOST_TEST(!a.race.leads());
  live(1s);
  BOOST_TEST(a.race.leader()->endpoint == "tcp://b");
  BOOST_TEST(b.race.right().term == 2u);
  BOOST_TEST(etcd.leases(now) == 1u);
}

BOOST_AUTO_TEST_CASE(an_answer_from_before_it_froze_prolongs_nothing) {
  live(10ms);
  while (a.asked.empty()) {
    now += 10ms;
    a.race.on_time(now);
  }
  auto number = a.asked.front().first;
  auto answer = etcd.ask(a.asked.front().second, now);
  a.asked.clear();
  now += 3s;
  a.race.on_answer({number, *answer}, now);
  BOOST_TEST(!a.race.leads());
}

BOOST_AUTO_TEST_CASE(who_cannot_renew_stops_before_etcd_gives_the_lead_away) {
  live(5s);
  etcd.away = true;
  auto begun = now;
  while (a.race.leads())
    live(10ms);
  // Its lease was still good then (see check()), and nearly over.
  BOOST_TEST((now - begun >= 1300ms));
  BOOST_TEST((now - begun <= 1900ms));
}

BOOST_AUTO_TEST_CASE(who_is_cut_off_is_followed) {
  live(5s);
  a.cut_off = true;
  auto took = until_leads(b);
  BOOST_TEST(took.count() <= 2'200);
  live(5s);
  a.cut_off = false;
  live(5s);
  BOOST_TEST(b.race.right().term == 2u);
  BOOST_TEST(a.race.leader()->endpoint == "tcp://b");
}

BOOST_AUTO_TEST_CASE(a_short_absence_of_etcd_changes_nothing) {
  live(5s);
  etcd.away = true;
  live(1s);
  etcd.away = false;
  live(5s);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 1u);
}

BOOST_AUTO_TEST_CASE(after_a_long_absence_of_etcd_one_leads_again) {
  live(5s);
  etcd.away = true;
  live(1min);
  BOOST_TEST((!a.race.leads() && !b.race.leads()));
  etcd.away = false;
  live(1s);
  BOOST_TEST(a.race.leads() != b.race.leads());
  auto& winner = a.race.leads() ? a : b;
  BOOST_TEST(winner.race.right().term == 2u);
}

BOOST_AUTO_TEST_CASE(who_does_not_know_whether_it_was_elected_gives_it_back) {
  b.frozen = true;
  a.race.on_time(now);
  a.exchange(now);
  a.exchange(now);
  etcd.deaf = true;
  a.exchange(now);
  BOOST_TEST(etcd.leader(now).has_value());
  BOOST_TEST(!a.race.leads());
  etcd.deaf = false;
  live(1500ms);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 2u);
  BOOST_TEST(etcd.leases(now) == 1u);
}

BOOST_AUTO_TEST_CASE(an_election_that_took_longer_than_its_lease_is_void) {
  b.frozen = true;
  a.race.on_time(now);
  a.exchange(now);
  a.exchange(now);
  auto [number, what] = a.asked.front();
  a.asked.clear();
  auto answer = etcd.ask(what, now);
  now += 1900ms;
  a.race.on_answer({number, *answer}, now);
  BOOST_TEST(!a.race.leads());
}

BOOST_AUTO_TEST_CASE(what_etcd_ends_is_over_at_once) {
  live(1s);
  etcd.release();
  auto begun = now;
  while (a.race.right().term == 1 && now < begun + 10s)
    a.step(now += 10ms);
  // At the next renewal: it leads, but anew.
  BOOST_TEST((now - begun <= 510ms));
  BOOST_TEST(a.race.right().term == 2u);
}

BOOST_AUTO_TEST_CASE(who_resigns_is_followed_at_once) {
  live(5s);
  a.race.resign(now);
  BOOST_TEST(!a.race.leads());
  auto took = until_leads(b);
  BOOST_TEST(took.count() <= 110);
  BOOST_TEST(a.race.over());
  live(5s);
  BOOST_TEST(!a.race.leads());
}

BOOST_AUTO_TEST_CASE(without_etcd_one_can_resign_too) {
  live(5s);
  etcd.away = true;
  a.race.resign(now);
  live(1010ms);
  BOOST_TEST(a.race.over());
}

BOOST_AUTO_TEST_CASE(a_standby_resigns_at_once) {
  live(5s);
  b.race.resign(now);
  BOOST_TEST(b.race.over());
  BOOST_TEST(a.race.leads());
}

BOOST_AUTO_TEST_CASE(no_number_belongs_to_two_leaders) {
  a.known.numbers = 7;
  live(5s);
  BOOST_TEST(a.race.right().after == 7u);
  auto upto = a.race.right().kept.numbers;
  BOOST_TEST(upto == 7 + numbers_at_a_time);
  auto more = a.race.right().kept;
  more.numbers += numbers_at_a_time;
  a.race.keep(more, now);
  live(10ms);
  BOOST_TEST(a.race.right().kept.numbers == upto + numbers_at_a_time);
  a.race.resign(now);
  until_leads(b);
  BOOST_TEST(b.race.right().after == upto + numbers_at_a_time);
}

BOOST_AUTO_TEST_CASE(an_etcd_that_was_begun_anew_begins_no_earlier_term) {
  a.known.term = 6;
  live(5s);
  BOOST_TEST(a.race.right().term == 7u);
  a.frozen = true;
  // The other has a store that knows nothing; but it had looked.
  etcd = {};
  until_leads(b);
  BOOST_TEST(b.race.right().term == 8u);
}

BOOST_AUTO_TEST_CASE(what_is_not_kept_does_not_cost_the_lead) {
  live(5s);
  etcd.full = true;
  auto more = a.race.right().kept;
  more.drained.insert("a");
  a.race.keep(more, now);
  live(1min);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().kept.drained.empty());
  etcd.full = false;
  live(1s);
  BOOST_TEST(a.race.right().kept.drained.size() == 1u);
}

BOOST_AUTO_TEST_CASE(who_keeps_something_while_another_leads_finds_out) {
  live(5s);
  etcd.release();
  etcd.seize(now);
  auto more = a.race.right().kept;
  more.drained.insert("a");
  a.race.keep(more, now);
  a.race.on_time(now);
  a.exchange(now);
  BOOST_TEST(!a.race.leads());
  BOOST_TEST(etcd.kept().drained.empty());
}

BOOST_AUTO_TEST_SUITE_END()
