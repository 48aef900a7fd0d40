// Kernels as nvcc compiles them, run through the device's interface.
#include "tests/devices/fixture.hpp"

#include <bit>
#include <cmath>
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

} // namespace

BOOST_FIXTURE_TEST_SUITE(kernels_of_nvcc, kernels)

BOOST_AUTO_TEST_CASE(vector_add_with_a_ragged_end) {
  auto n = 1000;
  auto a = std::vector<float>(1000);
  std::iota(a.begin(), a.end(), 0.5f);
  auto pa = upload(a);
  auto pb = upload(a);
  auto pc = zeroes<float>(1024);
  BOOST_TEST(run("vector_add", {4}, {256}, arguments{pa, pb, pc, n}) == CUDA_SUCCESS);
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
  BOOST_TEST(run("matmul", {n / 16, n / 16}, {16, 16}, arguments{pa, pb, pc, int(n)}) == CUDA_SUCCESS);
  auto c = download<float>(pc, n * n);
  for (auto y = 0u; y < n; ++y)
    for (auto x = 0u; x < n; ++x) {
      auto sum = 0.0f;
      for (auto k = 0u; k < n; ++k)
        sum = std::fma(a[y * n + k], b[k * n + x], sum);
      BOOST_REQUIRE_EQUAL(c[y * n + x], sum);
    }
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
