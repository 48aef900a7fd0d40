#include "interposer/session/address_space.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <map>
#include <random>
#include <thread>

using namespace vgpu;
using namespace vgpu::interposer;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t window = 1024 * mib;

struct fixture {
  address_space space{first_window, window, 256 * mib, 512};
  std::uint64_t position = 0;

  device_address get(std::uint64_t bytes) {
    allocation what{.bytes = bytes};
    auto refusal = space.allocate(what);
    return refusal == address_space::refusal::none ? what.address : 0;
  }
  bool give(device_address at) {
    auto what = space.take(at);
    if (what)
      space.retire(*what, ++position);
    return what.has_value();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(addresses, fixture)

BOOST_AUTO_TEST_CASE(small_blocks_lie_512_bytes_apart) {
  auto a = get(1);
  auto b = get(1);
  BOOST_TEST(a == first_window);
  BOOST_TEST(b - a == 512U);
}

BOOST_AUTO_TEST_CASE(large_blocks_begin_at_a_granule) {
  get(1);
  auto big = get(3 * mib);
  BOOST_TEST(big % granule_bytes == 0U);
  // The room before it is still used.
  BOOST_TEST(get(1) - first_window == 512U);
}

BOOST_AUTO_TEST_CASE(the_quota_counts_granules) {
  auto most = get(252 * mib + 1);
  BOOST_TEST(most != 0U);
  BOOST_TEST(space.used() == 254 * mib);
  BOOST_TEST(get(2 * mib + 1) == 0U);
  // The last granule holds any number of small blocks.
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(get(mib / 2) != 0U);
  BOOST_TEST(space.used() == space.quota());
  BOOST_TEST(get(mib) == 0U);
  BOOST_TEST(get(mib / 2) != 0U);
  BOOST_TEST(get(1) == 0U);
  BOOST_TEST(get(~std::uint64_t{0}) == 0U);
  // A block that was freed leaves room for another one of its size.
  BOOST_TEST(give(most));
  BOOST_TEST(get(252 * mib + 1) != 0U);
}

BOOST_AUTO_TEST_CASE(a_full_space_awaits_the_end_of_small_blocks) {
  BOOST_TEST(get(254 * mib) != 0U);
  auto one = get(mib), other = get(mib);
  BOOST_TEST(other == one + mib);
  allocation next{.bytes = mib};
  BOOST_TEST(!space.awaits(next));
  BOOST_TEST(give(one));
  BOOST_TEST(get(mib) == 0U);
  BOOST_TEST(space.awaits(next));
  space.settle(position);
  BOOST_TEST(!space.awaits(next));
  BOOST_TEST(get(mib) == one);
}

// The smallest hole would cost a granule, and the begin of the largest one too.
BOOST_AUTO_TEST_CASE(a_full_space_uses_the_granules_that_count) {
  auto large = get(2 * mib);
  auto small = get(mib);
  auto fits = get(mib);
  BOOST_TEST(get(mib) == fits + mib);
  BOOST_TEST(give(large));
  BOOST_TEST(give(small));
  space.settle(position);
  BOOST_TEST(space.charge(space.quota() - space.used()));
  BOOST_TEST(get(mib) == small);
  BOOST_TEST(get(mib) != 0U); // behind the last block
  BOOST_TEST(get(mib) == 0U);
}

BOOST_AUTO_TEST_CASE(reserved_addresses_are_charged_apart) {
  auto at = space.reserve(4 * mib, granule_bytes).value();
  BOOST_TEST(space.used() == 0U);
  BOOST_TEST(space.charge(at, 3 * mib));
  BOOST_TEST(space.used() == 4 * mib);
  BOOST_TEST(space.charge(252 * mib));
  BOOST_TEST(!space.charge(space.reserve(512, 512).value(), 512));
  space.refund(at, 3 * mib);
  space.refund(252 * mib);
  BOOST_TEST(space.used() == 0U);
}

// Such memory is that of modules' variables.
BOOST_AUTO_TEST_CASE(memory_placed_by_others_counts_once_it_is_added) {
  space.adopt(
      {.address = 0x1000, .bytes = 55 * mib, .kind = memory_kind::global});
  BOOST_TEST(space.used() == 0U);
  space.add_variables(55 * mib);
  BOOST_TEST(space.used() == 56 * mib);
  BOOST_TEST(get(200 * mib + 1) == 0U);
  BOOST_TEST(get(200 * mib) != 0U);
  BOOST_TEST(space.take(0x1000).has_value());
  space.remove_variables(55 * mib);
  BOOST_TEST(space.used() == 200 * mib);
}

BOOST_AUTO_TEST_CASE(nothing_is_promised_while_promises_are_held) {
  auto held = space.hold_promises();
  std::atomic<bool> began{false};
  std::jthread other{[&] {
    auto promise = space.begin_promise();
    began = true;
    get(200 * mib);
  }};
  // The module that is loaded meanwhile takes what is left.
  space.add_variables(200 * mib);
  BOOST_TEST(!began);
  held.unlock();
  other.join();
  BOOST_TEST(began);
  BOOST_TEST(space.used() == 200 * mib);
}

BOOST_AUTO_TEST_CASE(a_changed_quota_also_bounds_charged_bytes) {
  std::atomic<std::uint64_t> later{0};
  address_space resized{first_window, window, 100, 512, &later};
  BOOST_TEST(resized.charge(60));
  BOOST_TEST(!resized.charge(60));
  later = 200;
  BOOST_TEST(resized.charge(60));
  later = 50; // less than is used
  BOOST_TEST(!resized.charge(1));
}

BOOST_AUTO_TEST_CASE(used_bytes_are_published_at_once) {
  std::atomic<std::uint64_t> shown{0};
  address_space watched{first_window, window, 1000, 512, nullptr, &shown, 16};
  allocation one{.bytes = 600};
  BOOST_REQUIRE((watched.allocate(one) == address_space::refusal::none));
  BOOST_TEST(shown == 608u);
  BOOST_REQUIRE(watched.charge(300));
  BOOST_TEST(shown == 908u);
  BOOST_REQUIRE(!watched.charge(300));
  BOOST_TEST(shown == 908u);
  watched.refund(300);
  watched.retire(*watched.take(one.address), 1);
  BOOST_TEST(shown == 0u);
}

BOOST_AUTO_TEST_CASE(a_freed_range_is_reused_after_its_work) {
  auto a = get(100);
  BOOST_TEST(give(a));
  BOOST_TEST(!give(a));
  BOOST_TEST(get(100) != a);
  space.settle(position);
  BOOST_TEST(get(100) == a);
}

BOOST_AUTO_TEST_CASE(inner_addresses_are_found_and_not_freed) {
  auto a = get(1000);
  BOOST_TEST(space.find(a + 999)->address == a);
  BOOST_TEST(!space.find(a + 1000));
  BOOST_TEST(!give(a + 1));
}

BOOST_AUTO_TEST_CASE(a_contexts_end_takes_its_allocations) {
  allocation one{.bytes = 10, .context = 1};
  allocation two{.bytes = 10, .context = 2};
  space.allocate(one);
  space.allocate(two);
  auto gone = space.take_all(1);
  BOOST_TEST(gone.size() == 1U);
  BOOST_TEST(!space.find(one.address));
  BOOST_TEST(space.find(two.address).has_value());
}

BOOST_AUTO_TEST_CASE(random_allocations_never_overlap_and_lose_no_room) {
  std::mt19937 random{7};
  std::map<device_address, std::uint64_t> live;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && !live.empty()) {
      auto victim = live.lower_bound(first_window + random() % window);
      if (victim == live.end())
        victim = live.begin();
      BOOST_REQUIRE(give(victim->first));
      live.erase(victim);
      if (random() % 4 == 0)
        space.settle(position);
      continue;
    }
    auto bytes = 1 + random() % (random() % 8 == 0 ? 4 * mib : 4096);
    auto at = get(bytes);
    if (at == 0) {
      space.settle(position);
      continue;
    }
    auto next = live.lower_bound(at);
    BOOST_REQUIRE((next == live.end() || at + bytes <= next->first));
    BOOST_REQUIRE((next == live.begin() ||
                   std::prev(next)->first + std::prev(next)->second <= at));
    live.emplace(at, bytes);
  }
  for (auto [at, bytes] : live)
    BOOST_REQUIRE(give(at));
  space.settle(position);
  BOOST_TEST(space.used() == 0U);
  BOOST_TEST(get(200 * mib) == first_window);
}

BOOST_AUTO_TEST_SUITE_END()
