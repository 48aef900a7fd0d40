// Kernels as nvcc compiles them, run through the device's interface.
#include "tests/unit/devices/cpu/device_fixture.hpp"
#include "tests/unit/devices/judged_times.hpp"

#include <bit>
#include <chrono>
#include <cmath>
#include <ctime>
#include <numeric>

namespace vgpu::test {

namespace {

struct kernels : device_fixture {
  kernels() { load(read_file(DEVICE_CODE "/kernels.ptx")); }

  template <class T>
  device_address zeroes(std::size_t count) {
    return memory(count * sizeof(T));
  }
};

/// Returns the processor time of all of this process's threads.
std::chrono::nanoseconds processor_time() {
  timespec x{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &x);
  return std::chrono::seconds{x.tv_sec} + std::chrono::nanoseconds{x.tv_nsec};
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(kernels_of_nvcc, kernels)

BOOST_AUTO_TEST_CASE(vector_add_with_a_ragged_end) {
  auto n = 1000;
  auto a = std::vector<float>(1000);
  std::iota(a.begin(), a.end(), 0.5f);
  auto pa = upload(a);
  auto pb = upload(a);
  auto pc = zeroes<float>(1024);
  BOOST_TEST(run("vector_add", {4}, {256}, arguments{pa, pb, pc, n}) ==
             CUDA_SUCCESS);
  auto c = download<float>(pc, 1024);
  for (auto i = 0u; i < 1000; ++i)
    BOOST_REQUIRE_EQUAL(c[i], 2 * a[i]);
  BOOST_TEST(c[1000] == 0.0f);
}

BOOST_AUTO_TEST_CASE(tiled_matmul) {
  constexpr auto n = 64u;
  auto a = std::vector<float>(n * n);
  auto b = std::vector<float>(n * n);
  for (auto i = 0u; i < n * n; ++i) {
    a[i] = float(i % 7) - 3;
    b[i] = float(i % 5) - 2;
  }
  auto pa = upload(a);
  auto pb = upload(b);
  auto pc = zeroes<float>(n * n);
  BOOST_TEST(run("matmul", {n / 16, n / 16}, {16, 16},
                 arguments{pa, pb, pc, int(n)}) == CUDA_SUCCESS);
  auto c = download<float>(pc, n * n);
  for (auto y = 0u; y < n; ++y)
    for (auto x = 0u; x < n; ++x) {
      auto sum = 0.0f;
      for (auto k = 0u; k < n; ++k)
        sum = std::fma(a[y * n + k], b[k * n + x], sum);
      BOOST_REQUIRE_EQUAL(c[y * n + x], sum);
    }
}

BOOST_AUTO_TEST_CASE(lanes_that_hold_a_lock_advance) {
  auto counter = zeroes<int>(1);
  BOOST_TEST(run("lock_in_warp", {4}, {64}, arguments{counter}) ==
             CUDA_SUCCESS);
  BOOST_TEST(download<int>(counter, 1)[0] == 256);
}

BOOST_AUTO_TEST_CASE(a_spin_lock_inside_a_warp) {
  auto lock = zeroes<int>(1);
  auto counter = zeroes<int>(1);
  BOOST_TEST(run("spin_lock", {2}, {64}, arguments{lock, counter}) ==
             CUDA_SUCCESS);
  BOOST_TEST(download<int>(counter, 1)[0] == 128);
}

// PTX allows up to twice the given time, and this device never sleeps less than
// it.
BOOST_AUTO_TEST_CASE(sleeping_lanes_overlap_and_use_no_processor) {
  auto naps = zeroes<unsigned>(1);
  auto cpu = processor_time();
  auto begin = std::chrono::steady_clock::now();
  BOOST_TEST(run("nap", {8}, {128}, arguments{50u, 1'000'000u, naps}) ==
             CUDA_SUCCESS);
  auto took = std::chrono::steady_clock::now() - begin;
  BOOST_TEST(download<unsigned>(naps, 1)[0] == 8 * 128 * 50);
  BOOST_TEST((took >= std::chrono::milliseconds{50}));
  if (!are_times_judged())
    return;
  // One after the other they would take 1.6 s.
  BOOST_TEST((took < std::chrono::milliseconds{800}));
  BOOST_TEST((processor_time() - cpu < took / 2));
}

BOOST_AUTO_TEST_CASE(sleeping_lanes_do_not_hold_up_others) {
  auto out = zeroes<unsigned>(1);
  BOOST_TEST(run("nap_beside_work", {2}, {64}, arguments{out}) == CUDA_SUCCESS);
  BOOST_TEST(download<unsigned>(out, 1)[0] == 64 * 500);
}

BOOST_AUTO_TEST_CASE(divergent_loops) {
  auto steps = zeroes<int>(1000);
  BOOST_TEST(run("collatz", {8}, {128}, arguments{steps, 1000}) ==
             CUDA_SUCCESS);
  auto got = download<int>(steps, 1000);
  for (auto i = 0u; i < 1000; ++i) {
    auto count = 0;
    for (auto x = i + 1ull; x != 1; ++count)
      x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    BOOST_REQUIRE_EQUAL(got[i], count);
  }
}

BOOST_AUTO_TEST_CASE(reduction_in_dynamic_shared_memory) {
  auto in = std::vector<int>(1024);
  std::iota(in.begin(), in.end(), 1);
  auto from = upload(in);
  auto out = zeroes<int>(1);
  BOOST_TEST(run("block_sum", {4}, {256}, arguments{from, out}, 1024) ==
             CUDA_SUCCESS);
  BOOST_TEST(download<int>(out, 1)[0] == 1024 * 1025 / 2);
}

BOOST_AUTO_TEST_CASE(reduction_with_shuffles) {
  auto from = upload(std::vector<float>(512, 1.0f));
  auto out = zeroes<float>(1);
  BOOST_TEST(run("warp_sum", {2}, {256}, arguments{from, out}) == CUDA_SUCCESS);
  BOOST_TEST(download<float>(out, 1)[0] == 512.0f);
}

BOOST_AUTO_TEST_CASE(lanes_of_a_warp_exchange_values) {
  auto out = zeroes<unsigned>(320);
  BOOST_TEST(run("warp_talk", {1}, {32}, arguments{out}) == CUDA_SUCCESS);
  auto got = download<unsigned>(out, 320);
  for (auto l = 0u; l < 32; ++l) {
    auto o = got.data() + l * 10;
    BOOST_TEST(o[0] == 15u);
    BOOST_TEST(o[1] == (l < 2 ? l : l - 2) * 3);
    BOOST_TEST(o[2] == (l > 29 ? l : l + 2) * 3);
    BOOST_TEST(o[3] == (l ^ 7) * 3);
    BOOST_TEST(o[4] == 0x49249249u);
    BOOST_TEST(o[5] == 2u);
    BOOST_TEST(o[6] == 0x11111111u << (l % 4));
    BOOST_TEST(o[7] == 0u);
    BOOST_TEST(o[8] == 32u);
    BOOST_TEST(o[9] == (l < 10 ? 9u + 0x2aau : 0u));
  }
}

BOOST_AUTO_TEST_CASE(barriers_count_votes) {
  auto out = zeroes<int>(1024);
  for (auto threads : {1024u, 100u}) {
    BOOST_TEST(run("vote_count", {1}, {threads}, arguments{out}) ==
               CUDA_SUCCESS);
    auto got = download<int>(out, threads);
    auto thirds = int(threads + 2) / 3;
    auto all = threads <= 1000 ? 2 : 0;
    for (auto x : got)
      BOOST_REQUIRE_EQUAL(x, thirds * 4 + all + 1);
  }
}

BOOST_AUTO_TEST_CASE(recursive_calls) {
  auto out = zeroes<int>(64);
  BOOST_TEST(run("recursion", {1}, {64}, arguments{out}) == CUDA_SUCCESS);
  auto got = download<int>(out, 64);
  auto f = std::vector<int>{0, 1};
  for (auto i = 2u; i < 12; ++i)
    f.push_back(f[i - 1] + f[i - 2]);
  for (auto i = 0u; i < 64; ++i)
    BOOST_TEST(got[i] == f[i % 12]);
}

BOOST_AUTO_TEST_CASE(calls_through_pointers) {
  auto out = zeroes<int>(32);
  BOOST_TEST(run("indirect", {1}, {32}, arguments{out}) == CUDA_SUCCESS);
  auto got = download<int>(out, 32);
  for (auto i = 0; i < 32; ++i)
    BOOST_TEST(got[unsigned(i)] == (i % 2 == 0 ? 2 * i : i * i));
}

BOOST_AUTO_TEST_CASE(printf_goes_to_the_printer) {
  auto text = std::string{};
  dev->set_printer([&](console, std::string_view x) { text += x; });
  BOOST_TEST(run("say", {1}, {32}, arguments{3}) == CUDA_SUCCESS);
  BOOST_TEST(text == "thread 0 of block:  4.50 a 123456789abc %\n"
                     "thread 1 of block:  4.50 b 123456789abc %\n");
}

BOOST_AUTO_TEST_CASE(printf_takes_the_hosts_conversions) {
  auto text = std::string{};
  dev->set_printer([&](console, std::string_view x) { text += x; });
  BOOST_TEST(run("say_more", {1}, {1}, arguments{2.0 / 3}) == CUDA_SUCCESS);
  BOOST_TEST(text == "65 1099511627776 0.667|   0.3333 %|\n");
}

BOOST_AUTO_TEST_CASE(variables_with_initial_values) {
  auto out = zeroes<float>(3);
  BOOST_TEST(run("statics", {1}, {1}, arguments{out, 2}) == CUDA_SUCCESS);
  auto got = download<float>(out, 3);
  BOOST_TEST(got[0] == -3.0f);
  BOOST_TEST(got[1] == 20.0f);
  BOOST_TEST(got[2] == 30.0f);
}

BOOST_AUTO_TEST_CASE(structures_by_value) {
  struct big {
    int values[20];
    double last;
  };
  auto x = big{};
  std::iota(std::begin(x.values), std::end(x.values), 100);
  x.last = 2.5;
  auto out = zeroes<double>(2);
  BOOST_TEST(run("by_value", {1}, {1}, arguments{x, 13, out}) == CUDA_SUCCESS);
  auto got = download<double>(out, 2);
  BOOST_TEST(got[0] == 113.0);
  BOOST_TEST(got[1] == 2.5);
}

BOOST_AUTO_TEST_CASE(local_arrays) {
  auto out = zeroes<int>(64);
  BOOST_TEST(run("local_array", {1}, {64}, arguments{out, 20}) == CUDA_SUCCESS);
  auto got = download<int>(out, 64);
  for (auto i = 0; i < 64; ++i)
    BOOST_TEST(got[unsigned(i)] == 190 * i);
}

BOOST_AUTO_TEST_CASE(generic_addresses) {
  auto out = zeroes<int>(64);
  BOOST_TEST(run("generic", {1}, {32}, arguments{out}) == CUDA_SUCCESS);
  auto got = download<int>(out, 33);
  for (auto i = 0; i < 32; ++i)
    BOOST_TEST(got[unsigned(i) + 1] == (i % 3 == 0   ? 2 * i + 100
                                        : i % 3 == 1 ? i + 100
                                                     : -1));
}

BOOST_AUTO_TEST_CASE(atomics_of_all_kinds) {
  auto u = upload(std::vector<unsigned>{0, ~0u, 0, 0, 0, ~0u, 0, 0, 0});
  auto f = zeroes<float>(1);
  auto d = zeroes<double>(1);
  auto s = zeroes<int>(2);
  auto l = zeroes<unsigned long long>(1);
  BOOST_TEST(run("atomics", {10}, {100}, arguments{u, f, d, s, l}) ==
             CUDA_SUCCESS);
  auto got = download<unsigned>(u, 9);
  BOOST_TEST(got[0] == 1000u);
  BOOST_TEST(got[1] == 0u);
  BOOST_TEST(got[2] == 999u);
  BOOST_TEST(got[3] == 0u);
  BOOST_TEST(got[4] == 0u);
  BOOST_TEST(got[5] == 0u);
  BOOST_TEST(got[6] == ~0u);
  BOOST_TEST(got[7] == 0xffffff00u);
  BOOST_TEST(got[8] == 3000u);
  BOOST_TEST(download<float>(f, 1)[0] == 1000.0f);
  BOOST_TEST(download<double>(d, 1)[0] == 500.0);
  auto extremes = download<int>(s, 2);
  BOOST_TEST(extremes[0] == -999);
  BOOST_TEST(extremes[1] == 499);
  BOOST_TEST(download<unsigned long long>(l, 1)[0] == 1000ull << 33);
}

BOOST_AUTO_TEST_CASE(switches) {
  auto out = zeroes<int>(64);
  BOOST_TEST(run("dispatch", {1}, {64}, arguments{out}) == CUDA_SUCCESS);
  auto got = download<int>(out, 64);
  for (auto i = 0; i < 64; ++i) {
    int wanted[] = {i + 11, i * 13, i - 17,    i ^ 19, i * i,
                    i << 3, ~i,     i / 3 + 1, 7};
    BOOST_TEST(got[unsigned(i)] == wanted[i % 9]);
  }
}

BOOST_AUTO_TEST_CASE(blocks_may_wait_for_one_another) {
  auto arrived = zeroes<unsigned>(1);
  auto out = zeroes<unsigned>(32);
  BOOST_TEST(run("meet", {32}, {64}, arguments{arrived, out}) == CUDA_SUCCESS);
  for (auto x : download<unsigned>(out, 32))
    BOOST_TEST(x == 32u);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
