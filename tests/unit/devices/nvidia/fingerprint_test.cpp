// How changes of a real GPU's memory are noticed: the fingerprint kernel, run
// on the cpu device, and the comparison of its results.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/nvidia/memory/seen_contents.hpp"

#include <bit>
#include <functional>

using namespace vgpu;
using namespace vgpu::test;
using device::nvidia::fingerprint;
using device::nvidia::seen_contents;

namespace {

constexpr auto words = granule_bytes / sizeof(std::uint64_t);

struct looks : device_fixture {
  device_address granules = memory(3 * granule_bytes);
  device_address list = memory(4096);
  device_address out = memory(4096);

  looks() { load_ptx(device::nvidia::memory_kernels_ptx); }

  void write(device_address to, const std::vector<std::uint64_t>& x) {
    auto copy = std::make_shared<std::vector<std::uint64_t>>(x);
    BOOST_REQUIRE(dev->enqueue_write(legacy_stream, to,
                                     std::as_bytes(std::span{*copy}), copy)
                      .ok());
  }

  std::vector<fingerprint> look(const std::vector<std::uint64_t>& at) {
    write(list, at);
    write(out, std::vector<std::uint64_t>(2 * at.size()));
    auto ended =
        run("fingerprint",
            {device::nvidia::parts_of_granule,
             static_cast<std::uint32_t>(at.size()), 1},
            {device::nvidia::fingerprint_threads, 1, 1}, arguments{list, out});
    BOOST_REQUIRE(ended == CUDA_SUCCESS);
    auto got = download<std::uint64_t>(out, 2 * at.size());
    std::vector<fingerprint> all;
    for (std::size_t i = 0; i < at.size(); ++i)
      all.push_back({got[2 * i], got[2 * i + 1]});
    return all;
  }

  /// Returns the fingerprint of the first granule with these contents.
  fingerprint of(const std::vector<std::uint64_t>& x) {
    write(granules, x);
    return look({granules}).front();
  }
};

std::vector<std::uint64_t> noise() {
  std::vector<std::uint64_t> out(words);
  std::uint64_t state = 88172645463325252u;
  for (auto& x : out) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    x = state;
  }
  return out;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(fingerprint_kernel, looks)

BOOST_AUTO_TEST_CASE(equal_contents_have_equal_fingerprints_anywhere) {
  auto x = noise();
  for (auto i = 0u; i < 3; ++i)
    write(granules + i * granule_bytes, x);
  auto got =
      look({granules + 2 * granule_bytes, granules, granules + granule_bytes});
  BOOST_CHECK(got[0] == got[1] && got[1] == got[2]);
  BOOST_CHECK(got[0] != fingerprint{});
}

BOOST_AUTO_TEST_CASE(every_change_alters_the_fingerprint) {
  auto before = noise();
  auto first = of(before);
  auto changed =
      [&](const std::function<void(std::vector<std::uint64_t>&)>& f) {
        auto x = before;
        f(x);
        return of(x) != first;
      };
  for (auto place : {std::size_t{0}, std::size_t{1}, words / 2, words - 1})
    for (auto bit : {0, 31, 63})
      BOOST_TEST(
          changed([&](auto& x) { x[place] ^= std::uint64_t{1} << bit; }));
  // These changes keep the sum and the parity of each bit.
  BOOST_TEST(changed([](auto& x) { std::swap(x[0], x[2]); }));
  BOOST_TEST(changed([](auto& x) { std::swap(x[0], x[1]); }));
  BOOST_TEST(changed([](auto& x) { std::swap(x[5], x[words - 3]); }));
  BOOST_TEST(changed([](auto& x) {
    std::rotate(x.begin(), x.begin() + words / 16, x.end());
  }));
  BOOST_TEST(changed([](auto& x) {
    for (auto& each : x) // negates all of them as floats
      each ^= std::uint64_t{1} << 63;
  }));
  BOOST_TEST(changed([](auto& x) { x.assign(words, 0); }));
}

BOOST_AUTO_TEST_CASE(different_constant_contents_differ) {
  std::vector<fingerprint> all;
  for (std::uint64_t value : {0ull, 1ull, ~0ull, 0x3f8000003f800000ull,
                              0xbf800000bf800000ull, 0x8000000080000000ull})
    all.push_back(of(std::vector<std::uint64_t>(words, value)));
  std::sort(all.begin(), all.end());
  BOOST_CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(seen_granules)

namespace {

constexpr device_address a = first_window, b = a + granule_bytes;
constexpr fingerprint one{1, 1}, two{2, 2};

std::uint64_t look(seen_contents& at, std::vector<device_address> granules,
                   std::vector<fingerprint> what) {
  return at.look(granules, what);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_difference_is_a_change_since_earlier_looks) {
  seen_contents x;
  auto first = look(x, {a, b}, {one, one});
  BOOST_TEST(first != 0u);
  BOOST_TEST(!x.changed_since(a, first));
  auto second = look(x, {a, b}, {two, one});
  BOOST_TEST(second > first);
  BOOST_TEST(x.changed_since(a, first));
  BOOST_TEST(!x.changed_since(a, second));
  BOOST_TEST(!x.changed_since(b, first));
  // The contents are the first ones again, but changed in between.
  look(x, {a, b}, {one, one});
  BOOST_TEST(x.changed_since(a, first));
  BOOST_TEST(x.changed_since(a, second));
}

BOOST_AUTO_TEST_CASE(memory_that_is_mapped_or_unmapped_has_changed) {
  seen_contents x;
  auto first = look(x, {a}, {one});
  BOOST_TEST(x.changed_since(b, first));
  auto second = look(x, {b}, {one});
  BOOST_TEST(x.changed_since(b, first));
  BOOST_TEST(!x.changed_since(b, second));
  BOOST_TEST(x.changed_since(a, second));
}

BOOST_AUTO_TEST_CASE(a_copy_of_other_contents_is_made_again) {
  seen_contents x;
  auto first = look(x, {a, b}, {one, one});
  x.copied(a, two); // while a kernel wrote
  x.copied(b, one);
  BOOST_TEST(x.changed_since(a, first));
  BOOST_TEST(!x.changed_since(b, first));
  // The kernel has restored the former contents, so the copy is still wrong.
  auto second = look(x, {a, b}, {one, one});
  BOOST_TEST(x.changed_since(a, first));
  BOOST_TEST(!x.changed_since(a, second));
  BOOST_TEST(!x.changed_since(b, first));
}

BOOST_AUTO_TEST_SUITE_END()
