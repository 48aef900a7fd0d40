// Algorithms of Thrust on a million elements, against the standard library's.
// nvcc: -arch=compute_90
// This avoids compiling each algorithm again for 64-bit sizes.
#define THRUST_FORCE_32_BIT_OFFSET_TYPE
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>
#include <vector>

constexpr int n = 1 << 20;
static int failures = 0;

static void expect(bool ok, const char* what) {
  if (!ok) {
    std::printf("%s is wrong\n", what);
    ++failures;
  }
}

template <class T>
static bool same(const thrust::device_vector<T>& got,
                 const std::vector<T>& expected) {
  std::vector<T> host(got.size());
  thrust::copy(got.begin(), got.end(), host.begin());
  return host == expected;
}

template <class T>
static std::vector<T> numbers(unsigned seed, std::uint64_t below) {
  std::mt19937_64 random(seed);
  std::vector<T> out(n);
  for (auto& x : out)
    x = static_cast<T>(random() % below);
  return out;
}

struct particle {
  double mass;
  std::int32_t cell;
  std::int16_t charge;
  __host__ __device__ bool operator<(const particle& other) const {
    return cell != other.cell ? cell < other.cell : mass < other.mass;
  }
  __host__ __device__ bool operator==(const particle& other) const {
    return cell == other.cell && mass == other.mass && charge == other.charge;
  }
};

struct square {
  __host__ __device__ std::int64_t operator()(std::uint32_t x) const {
    return std::int64_t(x % 1000) * (x % 1000);
  }
};

struct is_odd {
  __host__ __device__ bool operator()(std::uint32_t x) const { return x & 1; }
};

static void sorts() {
  auto keys = numbers<std::uint32_t>(1, ~0ull);
  thrust::device_vector<std::uint32_t> k(keys);
  thrust::sort(k.begin(), k.end());
  std::sort(keys.begin(), keys.end());
  expect(same(k, keys), "sort of 32-bit keys");

  auto wide = numbers<std::int64_t>(2, ~0ull);
  thrust::device_vector<std::int64_t> w(wide);
  thrust::sort(w.begin(), w.end(), thrust::greater<std::int64_t>());
  std::sort(wide.begin(), wide.end(), std::greater<>());
  expect(same(w, wide), "descending sort of 64-bit keys");

  auto cells = numbers<std::int32_t>(3, 5000);
  std::vector<particle> particles(n);
  for (int i = 0; i < n; ++i)
    particles[i] = {double(i * 7919ll % n), cells[i], std::int16_t(i)};
  thrust::device_vector<particle> p(particles);
  thrust::sort(p.begin(), p.end());
  std::sort(particles.begin(), particles.end());
  expect(same(p, particles), "sort of structures");
}

static void sorts_by_key() {
  auto keys = numbers<std::uint32_t>(4, 1000);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  thrust::device_vector<std::uint32_t> k(keys);
  thrust::device_vector<int> v(order);
  thrust::stable_sort_by_key(k.begin(), k.end(), v.begin());
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return keys[a] < keys[b]; });
  expect(same(v, order), "stable_sort_by_key");

  // The keys are sorted now, so equal ones form runs.
  std::vector<std::uint32_t> sorted(keys);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> sums;
  for (int i = 0; i < n; ++i) {
    if (i == 0 || sorted[i] != sorted[i - 1])
      sums.push_back(0);
    sums.back() += order[i];
  }
  thrust::device_vector<std::uint32_t> runs(n);
  thrust::device_vector<std::int64_t> totals(n);
  thrust::device_vector<std::int64_t> wide(v.begin(), v.end());
  auto end = thrust::reduce_by_key(k.begin(), k.end(), wide.begin(),
                                   runs.begin(), totals.begin());
  totals.resize(end.second - totals.begin());
  expect(same(totals, sums), "reduce_by_key");

  thrust::device_vector<std::int64_t> running(n);
  thrust::inclusive_scan_by_key(k.begin(), k.end(), wide.begin(),
                                running.begin());
  std::vector<std::int64_t> so_far(n);
  for (int i = 0; i < n; ++i)
    so_far[i] =
        order[i] + (i > 0 && sorted[i] == sorted[i - 1] ? so_far[i - 1] : 0);
  expect(same(running, so_far), "inclusive_scan_by_key");
}

static void folds() {
  auto data = numbers<std::uint32_t>(5, ~0ull);
  thrust::device_vector<std::uint32_t> d(data);
  expect(thrust::reduce(d.begin(), d.end(), std::uint64_t(0)) ==
             std::accumulate(data.begin(), data.end(), std::uint64_t(0)),
         "reduce");
  expect(thrust::transform_reduce(d.begin(), d.end(), square(), std::int64_t(0),
                                  thrust::plus<std::int64_t>()) ==
             std::transform_reduce(data.begin(), data.end(), std::int64_t(0),
                                   std::plus<>(), square()),
         "transform_reduce");
  expect(thrust::count_if(d.begin(), d.end(), is_odd()) ==
             std::count_if(data.begin(), data.end(), is_odd()),
         "count_if");

  std::vector<std::uint32_t> sums(n);
  std::inclusive_scan(data.begin(), data.end(), sums.begin());
  thrust::device_vector<std::uint32_t> s(n);
  thrust::inclusive_scan(d.begin(), d.end(), s.begin());
  expect(same(s, sums), "inclusive_scan");
  std::vector<double> exact(n), before(n);
  for (int i = 0; i < n; ++i)
    exact[i] = data[i] % 1024;
  std::exclusive_scan(exact.begin(), exact.end(), before.begin(), 0.5);
  thrust::device_vector<double> e(exact);
  thrust::exclusive_scan(e.begin(), e.end(), e.begin(), 0.5);
  expect(same(e, before), "exclusive_scan");
}

static void selections() {
  auto data = numbers<std::uint32_t>(6, 3);
  thrust::device_vector<std::uint32_t> d(data);
  d.erase(thrust::unique(d.begin(), d.end()), d.end());
  data.erase(std::unique(data.begin(), data.end()), data.end());
  expect(same(d, data), "unique");

  auto more = numbers<std::uint32_t>(7, 1 << 30);
  thrust::device_vector<std::uint32_t> m(more);
  thrust::device_vector<std::uint32_t> odd(n);
  odd.erase(thrust::copy_if(m.begin(), m.end(), odd.begin(), is_odd()),
            odd.end());
  std::vector<std::uint32_t> kept;
  std::copy_if(more.begin(), more.end(), std::back_inserter(kept), is_odd());
  expect(same(odd, kept), "copy_if");
}

int main() {
  sorts();
  sorts_by_key();
  folds();
  selections();
  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
