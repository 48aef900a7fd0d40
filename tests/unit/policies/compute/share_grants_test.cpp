// The parts of one pGPU that its sessions get in the long run.
#include "policies/compute/share_grants.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace vgpu::policy;

namespace {

constexpr auto tiny_error = 1e-9;

std::vector<share_user> some_users(std::mt19937& random) {
  std::uniform_real_distribution<double> part{0.01, 1};
  std::vector<share_user> out(1 + random() % 12);
  for (auto& x : out) {
    if (random() % 2 == 0)
      x.claim.share = part(random);
    if (random() % 3 == 0)
      x.claim.limit = part(random);
    x.wants = random() % 5 == 0 ? 0 : part(random);
  }
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(share_grants)

// The definition of water-filling: nobody gets more than they can use, nothing
// is left over while somebody could use more, and whoever gets less than they
// can use gets as much, relative to their weight, as any other.
BOOST_AUTO_TEST_CASE(equal_grants_are_max_min_fair) {
  std::mt19937 random{3};
  for (auto run = 0; run < 2000; ++run) {
    auto users = some_users(random);
    auto got = grants_of(share_policy::equal, users); // weights are equal
    auto sum = 0.0;
    auto highest = 0.0;
    auto hungry = false;
    for (auto i = 0u; i < users.size(); ++i) {
      auto most = std::min(users[i].wants, users[i].claim.limit);
      BOOST_REQUIRE(got[i] >= 0);
      BOOST_REQUIRE(got[i] <= most + tiny_error);
      sum += got[i];
      highest = std::max(highest, got[i]);
      hungry = hungry || got[i] < most - tiny_error;
    }
    BOOST_REQUIRE(sum <= 1 + tiny_error);
    if (hungry)
      BOOST_REQUIRE(std::abs(sum - 1) < tiny_error);
    for (auto i = 0u; i < users.size(); ++i)
      if (got[i] < std::min(users[i].wants, users[i].claim.limit) - tiny_error)
        BOOST_REQUIRE(std::abs(got[i] - highest) < tiny_error);
  }
}

BOOST_AUTO_TEST_CASE(unwanted_time_goes_to_the_others) {
  auto got = grants_of(share_policy::best_effort,
                       std::vector<share_user>{
                           {{.limit = 0.1}, 0.2}, {{}, 1}, {{}, 0}, {{}, 1}});
  BOOST_TEST(std::abs(got[0] - 0.2) < tiny_error);
  BOOST_TEST(std::abs(got[1] - 0.4) < tiny_error);
  BOOST_TEST(got[2] == 0.0);
  BOOST_TEST(std::abs(got[3] - 0.4) < tiny_error);
  got = grants_of(
      share_policy::priority,
      std::vector<share_user>{{{.priority = 1}, 1}, {{.priority = 9}, 0.75}});
  BOOST_TEST(std::abs(got[0] - 0.25) < tiny_error);
  BOOST_TEST(std::abs(got[1] - 0.75) < tiny_error);
  BOOST_TEST(grants_of(share_policy::equal, {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
