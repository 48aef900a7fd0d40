// Features of newer architectures as nvcc compiles them: tensor instructions,
// grid barriers, the heap, asynchronous copies, recursion.
#include "devices/cpu/run/float_format.hpp"
#include "devices/interface/condition_unit.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>

namespace vgpu::test {

namespace {

struct features : device_fixture {
  features() { load(read_file(DEVICE_CODE "/features.ptx")); }

  status launch_cooperative(std::string_view name, device::dim3 grid,
                            device::dim3 block, const arguments& args) {
    auto x = device::launch{};
    x.cluster = {0, 0, 0};
    x.module = module;
    x.kernel = kernel(name);
    x.grid = grid;
    x.block = block;
    x.cooperative = true;
    x.parameters = args.bytes();
    return dev->enqueue_launch(legacy_stream, x);
  }

  /// Returns a * b + scale * c by rows, where `a` and `b` return elements.
  template <class C, class A, class B>
  static std::vector<C> product(int m, int n, int k, A a, B b,
                                const std::vector<C>& c, C scale) {
    auto out = std::vector<C>(c.size());
    for (auto i = 0; i < m; ++i)
      for (auto j = 0; j < n; ++j) {
        auto sum = C(scale * c[std::size_t(i * n + j)]);
        for (auto l = 0; l < k; ++l)
          sum = C(sum + C(a(i, l)) * C(b(l, j)));
        out[std::size_t(i * n + j)] = sum;
      }
    return out;
  }
};

std::vector<std::uint16_t> halves(int count, int step) {
  auto out = std::vector<std::uint16_t>{};
  for (auto i = 0; i < count; ++i)
    out.push_back(device::cpu::double_to_half(i * step % 17 - 8,
                                              device::cpu::rounding::nearest));
  return out;
}

float real(std::uint16_t x) {
  return float(device::cpu::half_to_double(x));
}

template <class T>
std::vector<T> numbers(int count, int step, int range) {
  auto out = std::vector<T>{};
  for (auto i = 0; i < count; ++i)
    out.push_back(T(i * step % range - range / 2));
  return out;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(features_of_nvcc, features)

BOOST_AUTO_TEST_CASE(wmma_of_half_with_b_by_rows) {
  auto a = halves(32 * 16, 7);
  auto b = halves(16 * 8, 5);
  auto c = numbers<float>(32 * 8, 3, 50);
  auto pc = upload(c);
  BOOST_TEST(run("wmma_half", {1}, {32}, arguments{upload(a), upload(b), pc}) ==
             CUDA_SUCCESS);
  auto want = product<float>(
      32, 8, 16, [&](int i, int k) { return real(a[std::size_t(i * 16 + k)]); },
      [&](int k, int j) { return real(b[std::size_t(k * 8 + j)]); }, c, 2);
  BOOST_TEST(download<float>(pc, want.size()) == want);
}

BOOST_AUTO_TEST_CASE(wmma_of_half_by_columns_into_half) {
  auto a = halves(8 * 16, 7);
  auto b = halves(16 * 32, 5);
  auto c = halves(8 * 32, 3);
  auto pc = upload(c);
  BOOST_TEST(run("wmma_half_wide", {1}, {32},
                 arguments{upload(a), upload(b), pc}) == CUDA_SUCCESS);
  auto start = std::vector<float>{};
  for (auto x : c)
    start.push_back(real(x));
  auto want = product<float>(
      8, 32, 16, [&](int i, int k) { return real(a[std::size_t(k * 8 + i)]); },
      [&](int k, int j) { return real(b[std::size_t(j * 16 + k)]); }, start, 2);
  auto got = download<std::uint16_t>(pc, want.size());
  for (auto i = 0u; i < want.size(); ++i)
    BOOST_REQUIRE_EQUAL(real(got[i]), want[i]);
}

BOOST_AUTO_TEST_CASE(wmma_of_bytes) {
  auto a = numbers<signed char>(256, 7, 255);
  auto b = numbers<signed char>(256, 5, 251);
  auto c = numbers<int>(256, 31, 1000);
  auto pc = upload(c);
  BOOST_TEST(run("wmma_bytes", {1}, {32},
                 arguments{upload(a), upload(b), pc}) == CUDA_SUCCESS);
  auto want = product<int>(
      16, 16, 16, [&](int i, int k) { return a[std::size_t(i * 16 + k)]; },
      [&](int k, int j) { return b[std::size_t(j * 16 + k)]; }, c, 2);
  BOOST_TEST(download<int>(pc, want.size()) == want);
}

BOOST_AUTO_TEST_CASE(wmma_and_mma_of_double) {
  auto a = numbers<double>(32, 7, 23);
  auto b = numbers<double>(32, 5, 19);
  auto c = numbers<double>(64, 3, 41);
  for (auto wmma : {true, false}) {
    auto pc = upload(c);
    BOOST_TEST(run(wmma ? "wmma_double" : "tensor_double", {1}, {32},
                   arguments{upload(a), upload(b), pc}) == CUDA_SUCCESS);
    auto want = product<double>(
        8, 8, 4, [&](int i, int k) { return a[std::size_t(i * 4 + k)]; },
        [&](int k, int j) {
          return b[std::size_t(wmma ? j * 4 + k : k * 8 + j)];
        },
        c, wmma ? 2 : 1);
    BOOST_TEST(download<double>(pc, want.size()) == want);
  }
}

BOOST_AUTO_TEST_CASE(mma_of_half) {
  auto a = halves(16 * 16, 7);
  auto b = halves(16 * 8, 5);
  auto c = numbers<float>(16 * 8, 3, 50);
  auto pc = upload(c);
  BOOST_TEST(run("tensor_half", {1}, {32},
                 arguments{upload(a), upload(b), pc}) == CUDA_SUCCESS);
  auto want = product<float>(
      16, 8, 16, [&](int i, int k) { return real(a[std::size_t(i * 16 + k)]); },
      [&](int k, int j) { return real(b[std::size_t(k * 8 + j)]); }, c, 1);
  BOOST_TEST(download<float>(pc, want.size()) == want);
}

BOOST_AUTO_TEST_CASE(mma_of_bytes_saturates_when_asked) {
  auto a = numbers<signed char>(16 * 32, 7, 255);
  auto b = numbers<signed char>(32 * 8, 5, 251);
  auto c = numbers<int>(16 * 8, 31, 1000);
  c[5] = 2147483647;
  auto pc = upload(c);
  BOOST_TEST(run("tensor_bytes", {1}, {32},
                 arguments{upload(a), upload(b), pc}) == CUDA_SUCCESS);
  auto wide = std::vector<std::int64_t>(c.begin(), c.end());
  auto want = product<std::int64_t>(
      16, 8, 32, [&](int i, int k) { return a[std::size_t(i * 32 + k)]; },
      [&](int k, int j) { return b[std::size_t(j * 32 + k)]; }, wide, 1);
  auto got = download<int>(pc, want.size());
  for (auto i = 0u; i < want.size(); ++i)
    BOOST_REQUIRE_EQUAL(
        got[i], std::clamp<std::int64_t>(want[i], INT32_MIN, INT32_MAX));
}

BOOST_AUTO_TEST_CASE(a_grid_barrier_synchronises_all_blocks) {
  constexpr auto blocks = 16u;
  constexpr auto threads = 64u;
  constexpr auto rounds = 5;
  auto data = std::vector<int>(blocks * threads);
  std::iota(data.begin(), data.end(), 0);
  auto p = upload(data);
  auto ok =
      launch_cooperative("in_grid", {blocks}, {threads}, arguments{p, rounds});
  BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  auto want = data;
  for (auto r = 0; r < rounds; ++r) {
    auto before = want;
    for (auto i = 0u; i < want.size(); ++i)
      want[i] = before[(i + threads) % want.size()] + 1;
  }
  BOOST_TEST(download<int>(p, want.size()) == want);
}

/// Kernels may read its address, which is none of the heap: those are random.
BOOST_AUTO_TEST_CASE(a_grid_workspace_tells_nothing_of_the_heap) {
  auto p = memory(8);
  auto place = [&] {
    auto words = download<std::uint32_t>(p, 2);
    return std::uint64_t{words[0]} << 32 | words[1];
  };
  for (auto round = 0; round < 3; ++round) {
    auto ok = launch_cooperative("grid_workspace", {1}, {1}, arguments{p});
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
    BOOST_TEST(synchronize() == CUDA_SUCCESS);
    BOOST_TEST(place() < host_window);
    BOOST_TEST(place() >= host_window - 4 * window_bytes);
  }
  BOOST_TEST(run("grid_workspace", {1}, {1}, arguments{p}) == CUDA_SUCCESS);
  BOOST_TEST(place() == 0u);
}

BOOST_AUTO_TEST_CASE(a_grid_that_does_not_fit_is_refused) {
  auto p = memory(1 << 20);
  auto ok = launch_cooperative("in_grid", {100000}, {64}, arguments{p, int{1}});
  BOOST_REQUIRE(!ok.ok());
  BOOST_TEST(cuda_code(ok.why()) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

BOOST_AUTO_TEST_CASE(memory_of_malloc_outlives_its_kernel) {
  constexpr auto n = 256u;
  auto heads = memory(n * 8);
  auto sums = memory(n * 4);
  for (auto round = 0; round < 3; ++round) {
    BOOST_TEST(run("build_list", {n / 64}, {64}, arguments{heads, int{20}}) ==
               CUDA_SUCCESS);
    BOOST_TEST(run("sum_list", {n / 64}, {64}, arguments{heads, sums}) ==
               CUDA_SUCCESS);
    auto got = download<int>(sums, n);
    for (auto t = 0u; t < n; ++t)
      BOOST_REQUIRE_EQUAL(got[t], int(20 * t + 190));
  }
}

BOOST_AUTO_TEST_CASE(the_heap_ends_after_8_mib) {
  auto p = memory(12);
  BOOST_TEST(run("too_much", {1}, {1}, arguments{p}) == CUDA_SUCCESS);
  BOOST_TEST(download<int>(p, 3) == (std::vector<int>{1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(freeing_other_memory_than_mallocs_is_an_error) {
  BOOST_TEST(run("free_nonsense", {1}, {1}, arguments{memory(64)}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

/// Defines set(handle, value).
constexpr const char* condition_setter = R"(.version 8.3
.target sm_90
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);
.visible .entry set(.param .u64 handle, .param .u32 value) {
  .reg .b64 %h;
  .reg .b32 %v;
  .param .b64 a;
  .param .b32 b;
  ld.param.u64 %h, [handle];
  ld.param.u32 %v, [value];
  st.param.b64 [a], %h;
  st.param.b32 [b], %v;
  call.uni cudaGraphSetConditional, (a, b);
  ret;
})";

BOOST_AUTO_TEST_CASE(a_condition_is_set_at_its_handles_word) {
  load_ptx(condition_setter);
  auto words = upload(std::vector<int>{1, 2, 3});
  auto& unit = dynamic_cast<device::condition_unit&>(*dev);
  auto place = condition_places.front();
  BOOST_REQUIRE(unit.set_conditions_in(memory_id{1}, words, place).ok());
  auto second = condition_handle(place + 4);
  BOOST_TEST(run("set", {1}, {1}, arguments{second, 77}) == CUDA_SUCCESS);
  BOOST_TEST(download<int>(words, 3) == (std::vector<int>{1, 77, 3}));
  // Only 32 bits of a handle count, as on a GPU.
  BOOST_TEST(run("set", {1}, {1}, arguments{second + (1ull << 32), 78}) ==
             CUDA_SUCCESS);
  BOOST_TEST(download<int>(words, 3) == (std::vector<int>{1, 78, 3}));
}

BOOST_AUTO_TEST_CASE(a_wrong_handle_sets_no_condition) {
  load_ptx(condition_setter);
  auto words = upload(std::vector<int>{1, 2, 3});
  auto& unit = dynamic_cast<device::condition_unit&>(*dev);
  auto place = condition_places.front();
  BOOST_REQUIRE(unit.set_conditions_in(memory_id{1}, words, place).ok());
  auto behind = condition_handle(place + condition_bytes);
  BOOST_TEST(run("set", {1}, {1}, arguments{behind, 77}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(asynchronous_copies_complete_at_their_barriers) {
  auto in = std::vector<int>(1024);
  std::iota(in.begin(), in.end(), 7);
  auto from = upload(in);
  auto to = memory(in.size() * 4);
  BOOST_TEST(run("copy_ahead", {4}, {256}, arguments{from, to}) ==
             CUDA_SUCCESS);
  auto got = download<int>(to, in.size());
  for (auto i = 0u; i < in.size(); ++i)
    BOOST_REQUIRE_EQUAL(got[i], in[i / 256 * 256 + 255 - i % 256]);
  BOOST_TEST(run("copy_in_bulk", {4}, {256}, arguments{from, to}) ==
             CUDA_SUCCESS);
  got = download<int>(to, in.size());
  for (auto i = 0u; i < in.size(); ++i)
    BOOST_REQUIRE_EQUAL(got[i], in[i] * 2);
}

BOOST_AUTO_TEST_CASE(functions_may_be_recursive) {
  auto p = memory(32 * 4);
  BOOST_TEST(run("recursion", {1}, {32}, arguments{p}) == CUDA_SUCCESS);
  auto got = download<int>(p, 32);
  for (auto i = 0; i < 32; ++i)
    BOOST_REQUIRE_EQUAL(got[std::size_t(i)], 2 * (i % 4) + 3);
}

BOOST_AUTO_TEST_CASE(functions_may_allocate_on_the_stack) {
  auto sizes = std::vector<int>(32);
  for (auto i = 0; i < 32; ++i)
    sizes[std::size_t(i)] = i % 7 * 10;
  auto p = memory(32 * 4);
  BOOST_TEST(run("on_the_stack", {1}, {32}, arguments{upload(sizes), p}) ==
             CUDA_SUCCESS);
  auto got = download<int>(p, 32);
  for (auto i = 0; i < 32; ++i) {
    auto n = sizes[std::size_t(i)];
    BOOST_REQUIRE_EQUAL(got[std::size_t(i)], n * (n - 1) / 2 * (i + 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
