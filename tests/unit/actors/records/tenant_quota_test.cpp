#include "actors/records/tenant_quota.hpp"

#include "actors/link/permitted_keys.hpp"
#include "actors/records/records_json.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace vgpu;

namespace {

constexpr auto one_gib = std::uint64_t{1} << 30;

session_record session_of(std::uint32_t gpus, std::uint64_t memory,
                          double share) {
  session_record out;
  out.spec.gpus = gpus;
  out.spec.memory = memory;
  out.spec.share = share;
  return out;
}

/// Returns why the tenant `t` may not have one more; empty: it may.
std::string why_not(const tenant_use& used,
                    const control::tenant_limits& limits,
                    const session_record& more) {
  auto got = used.admit("t", limits, true, more);
  return got ? std::string{} : got.why().what;
}

bool tells(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tenant_quotas)

BOOST_AUTO_TEST_CASE(a_row_of_the_list_is_a_use) {
  tenant_use used;
  used.add(session_of(2, one_gib, 0.5));
  control::tenant row;
  used.tell(row);
  const tenant_use again{row};
  const control::tenant_limits limits{.gpus = 4, .memory = 4 * one_gib};
  for (auto gpus : {1u, 2u, 3u}) {
    auto more = session_of(gpus, one_gib, 1);
    BOOST_TEST(why_not(again, limits, more) == why_not(used, limits, more));
  }
}

BOOST_AUTO_TEST_CASE(each_limit_is_met_exactly_and_not_exceeded) {
  tenant_use used;
  used.add(session_of(2, one_gib, 0.5));
  struct row {
    control::tenant_limits limits;
    session_record good;
    session_record bad;
    std::string told;
  };
  auto one = session_of(1, one_gib, 0.5);
  const row rows[] = {
      {{.gpus = 4}, session_of(2, 0, 1), session_of(3, 0, 1), "--gpus"},
      {{.memory = 3 * one_gib},
       one,
       session_of(1, one_gib + 1, 0.5),
       "--memory"},
      {{.share = 1.5}, one, session_of(1, 0, 0.6), "--share"},
  };
  for (const auto& x : rows)
    BOOST_TEST_CONTEXT(x.told) {
      BOOST_TEST(why_not(used, x.limits, x.good) == "");
      auto why = why_not(used, x.limits, x.bad);
      BOOST_TEST(tells(why, "tenant 't' may have"));
      BOOST_TEST(tells(why, "1 sessions, of which 1 wait"));
      BOOST_TEST(tells(why, "vgpu tenant set t " + x.told));
    }
  BOOST_TEST(why_not(used, {.sessions = 2}, one) == "");
  BOOST_TEST(tells(why_not(used, {.sessions = 1}, one),
                   "may have 1 sessions, has 1 (1 wait)"));
  BOOST_TEST(why_not(used, {}, session_of(64, 1ull << 60, 1)) == "");
}

BOOST_AUTO_TEST_CASE(a_limit_of_zero_allows_nothing) {
  auto one = session_of(1, one_gib, 0.5);
  BOOST_TEST(why_not({}, {.gpus = 0}, one) != "");
  BOOST_TEST(why_not({}, {.memory = 0}, one) != "");
  BOOST_TEST(why_not({}, {.share = 0}, one) != "");
  BOOST_TEST(why_not({}, {.sessions = 0}, one) != "");
}

BOOST_AUTO_TEST_CASE(fractions_add_up_as_people_add_them) {
  tenant_use used;
  for (auto i = 0; i < 9; ++i)
    used.add(session_of(1, 0, 0.1));
  BOOST_TEST(why_not(used, {.share = 1}, session_of(1, 0, 0.1)) == "");
  BOOST_TEST(why_not(used, {.share = 1}, session_of(1, 0, 0.11)) != "");
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_named_counts_once_it_is_known) {
  auto x = session_of(2, 0, 1);
  auto why = why_not({}, {.memory = one_gib}, x);
  BOOST_TEST(tells(why, "vgpu run --memory"));
  x.quota = one_gib; // it has its place
  BOOST_TEST(tenant_use::memory_of(x) == 2 * one_gib);
  tenant_use used;
  used.add(x);
  auto one = session_of(1, one_gib, 1);
  BOOST_TEST(why_not(used, {.memory = 3 * one_gib}, one) == "");
  BOOST_TEST(why_not(used, {.memory = 3 * one_gib - 1}, one) != "");
}

BOOST_AUTO_TEST_CASE(hostile_numbers_do_not_wrap) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  auto huge = session_of(std::numeric_limits<std::uint32_t>::max(), most, 1);
  BOOST_TEST(tenant_use::memory_of(huge) == most);
  tenant_use used;
  used.add(huge);
  used.add(huge);
  BOOST_TEST(why_not(used, {.memory = most - 1}, session_of(1, 1, 1)) != "");
  auto no_number = session_of(1, 1, std::numeric_limits<double>::quiet_NaN());
  BOOST_TEST(why_not({}, {.share = 5}, no_number) != "");
}

BOOST_AUTO_TEST_CASE(sessions_that_wait_are_told) {
  tenant_use used;
  auto x = session_of(1, 1, 1);
  used.add(x);
  x.stage = session_stage::running;
  used.add(x);
  control::tenant told;
  used.tell(told);
  BOOST_TEST(told.sessions == 2u);
  BOOST_TEST(told.waiting == 1u);
  BOOST_TEST(told.gpus == 2u);
  BOOST_TEST(told.memory == 2u);
  BOOST_TEST(told.share == 2);
}

BOOST_AUTO_TEST_CASE(limits_come_back_from_json) {
  for (const auto& x :
       {control::tenant_limits{}, control::tenant_limits{1, 2, 0.5, 3, -4},
        control::tenant_limits{.gpus = 0}})
    BOOST_CHECK(limits_from_json(to_json(x)) == x);
  BOOST_TEST(to_json(control::tenant_limits{}).dump() == "{}");
}

BOOST_AUTO_TEST_CASE(bad_limits_and_names_are_refused) {
  BOOST_TEST(check_limits({}).ok());
  BOOST_TEST(!check_limits({.share = -1}).ok());
  BOOST_TEST(
      !check_limits({.share = std::numeric_limits<double>::quiet_NaN()}).ok());
  BOOST_TEST(!check_limits({.priority = 1'001}).ok());
  BOOST_TEST(!check_limits({.priority = -1'001}).ok());
  BOOST_TEST(is_principal_name("a.b-C_7@h"));
  for (const auto& bad : {std::string{}, std::string{"a b"}, std::string{"a/b"},
                          std::string{"\x1b[2J"}, std::string(65, 'x')})
    BOOST_TEST(!is_principal_name(bad));
  BOOST_TEST(text_of(control::tenant_limits{}) == "no limits");
  BOOST_TEST(text_of(control::tenant_limits{.gpus = 2, .priority = 0}) ==
             "at most 2 GPUs, priority 0");
}

BOOST_AUTO_TEST_SUITE_END()
