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

  /// Delivers one request to etcd, and its answer to the candidate.
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

  /// Lets time pass. A frozen candidate may believe that it leads. At most one
  /// of the others leads, and none whose lease etcd has ended.
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

  /// Returns how long the candidate takes to lead.
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

BOOST_AUTO_TEST_CASE(a_candidate_leads_if_there_is_no_leader) {
  b.frozen = true;
  live(20ms);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 1u);
  BOOST_TEST(a.race.leader()->endpoint == "tcp://a");
  live(1min);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 1u);
}

BOOST_AUTO_TEST_CASE(a_standby_knows_the_leader) {
  live(10ms);
  live(1s);
  BOOST_TEST(!b.race.leads());
  BOOST_TEST(b.race.leader()->endpoint == "tcp://a");
  BOOST_TEST(etcd.leases(now) == 1u);
}

BOOST_AUTO_TEST_CASE(one_of_two_concurrent_candidates_leads) {
  // Both see that there is no leader, and have their leases, before either
  // takes the lead.
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

BOOST_AUTO_TEST_CASE(a_killed_leader_is_followed_when_its_lease_ends) {
  live(5s);
  a.frozen = true; // it never wakes up
  auto took = until_leads(b);
  BOOST_TEST(took.count() <= 2'200);
  BOOST_TEST(b.race.right().term == 2u);
}

BOOST_AUTO_TEST_CASE(a_frozen_leader_does_not_lead_when_it_wakes_up) {
  live(5s);
  a.frozen = true;
  until_leads(b);
  live(5s);
  // The first message that it receives answers a request from before.
  a.asked.clear();
  a.frozen = false;
  a.race.on_answer({0, etcd::renewed{2s}}, now);
  BOOST_TEST(!a.race.leads());
  live(1s);
  BOOST_TEST(a.race.leader()->endpoint == "tcp://b");
  BOOST_TEST(b.race.right().term == 2u);
  BOOST_TEST(etcd.leases(now) == 1u);
}

BOOST_AUTO_TEST_CASE(a_late_answer_does_not_prolong_a_lease) {
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

BOOST_AUTO_TEST_CASE(a_leader_that_cannot_renew_stops_before_its_lease_ends) {
  live(5s);
  etcd.away = true;
  auto begun = now;
  while (a.race.leads())
    live(10ms);
  // Its lease was still valid then (see check()), and nearly over.
  BOOST_TEST((now - begun >= 1300ms));
  BOOST_TEST((now - begun <= 1900ms));
}

BOOST_AUTO_TEST_CASE(a_leader_without_a_connection_is_followed) {
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

BOOST_AUTO_TEST_CASE(a_short_outage_of_etcd_changes_nothing) {
  live(5s);
  etcd.away = true;
  live(1s);
  etcd.away = false;
  live(5s);
  BOOST_TEST(a.race.leads());
  BOOST_TEST(a.race.right().term == 1u);
}

BOOST_AUTO_TEST_CASE(one_candidate_leads_after_a_long_outage_of_etcd) {
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

BOOST_AUTO_TEST_CASE(an_election_without_an_answer_is_given_back) {
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

BOOST_AUTO_TEST_CASE(a_lease_that_etcd_ends_is_over_at_the_next_renewal) {
  live(1s);
  etcd.release();
  auto begun = now;
  while (a.race.right().term == 1 && now < begun + 10s)
    a.step(now += 10ms);
  // At the next renewal it leads again, in a new term.
  BOOST_TEST((now - begun <= 510ms));
  BOOST_TEST(a.race.right().term == 2u);
}

BOOST_AUTO_TEST_CASE(a_leader_that_resigns_is_followed_at_once) {
  live(5s);
  a.race.resign(now);
  BOOST_TEST(!a.race.leads());
  auto took = until_leads(b);
  BOOST_TEST(took.count() <= 110);
  BOOST_TEST(a.race.over());
  live(5s);
  BOOST_TEST(!a.race.leads());
}

BOOST_AUTO_TEST_CASE(a_leader_can_resign_without_etcd) {
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

BOOST_AUTO_TEST_CASE(no_number_is_granted_to_two_leaders) {
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

BOOST_AUTO_TEST_CASE(an_emptied_etcd_begins_no_earlier_term) {
  a.known.term = 6;
  live(5s);
  BOOST_TEST(a.race.right().term == 7u);
  a.frozen = true;
  // The other's store is empty, but it had read the term from etcd.
  etcd = {};
  until_leads(b);
  BOOST_TEST(b.race.right().term == 8u);
}

BOOST_AUTO_TEST_CASE(a_record_that_cannot_be_kept_does_not_end_the_lead) {
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

BOOST_AUTO_TEST_CASE(a_record_is_not_kept_while_another_leads) {
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
