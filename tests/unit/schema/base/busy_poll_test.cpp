#include "schema/base/busy_poll.hpp"
#include "schema/base/processors.hpp"
#include "tests/unit/schema/on_one_processor.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <vector>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

using nanoseconds = std::chrono::nanoseconds;

constexpr busy_poll_limits to_spare{100us, 20us};
constexpr busy_poll::clock::time_point noon{std::chrono::hours{12}};

/// Reports waits of these lengths one after the other. Returns the length of
/// the busy-poll before each.
std::vector<nanoseconds> looks(busy_poll& rule,
                               const std::vector<nanoseconds>& waits) {
  std::vector<nanoseconds> out;
  for (auto x : waits) {
    out.push_back(rule.time(noon));
    rule.learned(x);
  }
  out.push_back(rule.time(noon));
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(busy_poll_)

BOOST_AUTO_TEST_CASE(a_poll_lasts_as_long_as_it_pays) {
  struct row {
    const char* what;
    std::vector<nanoseconds> waits;
    std::vector<nanoseconds> looks;
  };
  const row rows[] = {
      {"begins with the longest", {}, {100us}},
      {"short waits are polled",
       {1us, 100us, 30us},
       {100us, 100us, 100us, 100us}},
      {"long waits are not, after a few of them",
       {101us, 1ms, 5ms, 200us, 1ms, 1ms, 1ms, 1ms},
       {100us, 50us, 25us, 12500ns, 6250ns, 3125ns, 1562ns, 1us, 1us}},
      {"a rest makes the poll as short as it can be", {10ms}, {100us, 1us}},
      {"until some waits were short",
       {1s, 90us, 50us, 1us, 1us, 1us},
       {100us, 1us, 4us, 16us, 64us, 100us, 100us}},
      {"short and long waits in turn",
       {1s, 30us, 1ms, 30us, 1ms, 30us},
       {100us, 1us, 4us, 2us, 8us, 4us, 16us}},
      {"short waits and rests in turn: a keepalive",
       {1s, 30us, 1s, 30us, 1s},
       {100us, 1us, 4us, 1us, 4us, 1us}},
  };
  for (const auto& x : rows) {
    BOOST_TEST_CONTEXT(x.what) {
      busy_poll rule{to_spare};
      BOOST_TEST((looks(rule, x.waits) == x.looks));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_limit_of_zero_never_polls) {
  busy_poll rule{{}};
  BOOST_TEST((looks(rule, {0us, 1us, 1us}) ==
              std::vector<nanoseconds>{0us, 0us, 0us, 0us}));
  auto asked = 0;
  BOOST_TEST(
      !rule.wait_for(busy_poll::clock::now(), [&] { return ++asked != 0; }));
  BOOST_TEST(asked == 0);
}

BOOST_AUTO_TEST_CASE(an_interrupted_poll_is_short_for_a_while) {
  busy_poll rule{to_spare};
  rule.interrupted(noon);
  BOOST_TEST((rule.time(noon + 4ms) == 20us));
  BOOST_TEST((rule.time(noon + 5ms) == 100us));
  // Waits are counted meanwhile.
  rule.interrupted(noon);
  rule.learned(1s);
  BOOST_TEST((rule.time(noon) == 1us));
}

BOOST_AUTO_TEST_CASE(a_poll_ends_when_its_condition_holds) {
  busy_poll rule{{1ms, 1ms}};
  rule.learned(1s); // 1 us
  auto left = 3;
  auto began = busy_poll::clock::now();
  // A condition that holds at once is seen, however slow the machine.
  BOOST_TEST(rule.wait_for(began, [] { return true; }));
  BOOST_TEST((rule.time(began) == 4us));
  for (int i = 0; i < 6; ++i)
    rule.learned(1us); // the longest again
  auto third = [&] { return --left <= 0; };
  while (!rule.wait_for(busy_poll::clock::now(), third))
    BOOST_TEST(left > 0); // on a busy machine: once more
  BOOST_TEST(left == 0);
}

BOOST_AUTO_TEST_CASE(a_poll_without_success_ends_by_itself) {
  busy_poll rule{{1ms, 1ms}};
  auto began = busy_poll::clock::now();
  BOOST_TEST(!rule.wait_for(began, [] { return false; }));
  BOOST_TEST((busy_poll::clock::now() - began >= 1ms));
}

BOOST_AUTO_TEST_CASE(a_preempted_thread_polls_less) {
  std::atomic<bool> ends = false;
  auto hog = on_one_processor([&] {
    while (!ends)
      continue;
  });
  busy_poll rule{{1ms, 0ms}};
  auto looks = 0;
  auto found = false;
  auto looker = on_one_processor([&] {
    for (auto left = 10'000; left > 0; --left) {
      auto began = busy_poll::clock::now();
      if (rule.time(began) == 0ms)
        return;
      ++looks;
      found = rule.wait_for(began, [] { return false; }) || found;
    }
  });
  looker.join();
  ends = true;
  hog.join();
  BOOST_TEST(!found);
  BOOST_TEST(looks > 0);
  BOOST_TEST(looks < 10'000);
}

BOOST_AUTO_TEST_CASE(own_processors_follow_the_threads_affinity) {
  auto here = own_processors();
  auto there = 0u;
  on_one_processor([&] { there = own_processors(); }).join();
  BOOST_TEST(there == 1u);
  BOOST_TEST(own_processors() == here);
}

BOOST_AUTO_TEST_CASE(limits_follow_the_number_of_processors) {
  auto limits = [](const char* asked, unsigned processors, nanoseconds scarce) {
    auto chosen = choose_busy_poll(asked, processors);
    BOOST_REQUIRE(chosen.ok());
    auto out = chosen->limits(scarce);
    return std::pair{out.longest, out.contested};
  };
  using both = std::pair<nanoseconds, nanoseconds>;
  BOOST_TEST((limits(nullptr, 2, 20us) == both{20us, 20us}));
  BOOST_TEST((limits(nullptr, 7, 0us) == both{0us, 0us}));
  BOOST_TEST((limits(nullptr, 8, 20us) == both{100us, 20us}));
  BOOST_TEST((limits(nullptr, 64, 0us) == both{100us, 0us}));
  BOOST_TEST((limits("0", 64, 20us) == both{0us, 0us}));
  BOOST_TEST((limits("10", 64, 20us) == both{10us, 10us}));
  BOOST_TEST((limits("1000", 1, 0us) == both{1ms, 0us}));
}

BOOST_AUTO_TEST_CASE(a_malformed_time_is_refused_by_name) {
  for (const auto* wrong : {"", "1001", "-1", "5us", " 5", "often", "1e2", "+3",
                            "99999999999999999999"}) {
    auto chosen = choose_busy_poll(wrong, 2);
    BOOST_TEST_REQUIRE(!chosen.ok(), wrong);
    BOOST_TEST(chosen.why().what.find("VGPU_BUSY_POLL: '" + std::string{wrong} +
                                      "'") == 0u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
